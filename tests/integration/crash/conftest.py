"""A program whose processes die, and a scene for each of them."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from tests.integration.conftest import command, within
from tests.integration.crash.scene import Nursery, Open, Scene
from tests.integration.crash.site import LEASE, Policy, Site

from imgproc_domain.attempt import Replay

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One program a test process: what it forks begins at once."""
    path = os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY)))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.crash.program"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        yield Nursery(program)
        assert program.stdin is not None, "it is a pipe"
        program.stdin.close()


@pytest.fixture(scope="session")
def stage(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """The name of one database for all cases, which follow one another: each begins by emptying it."""
    name = f"imgproc_crash_{uuid4().hex[:12]}"
    command(postgres_server, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, migrated_template)
    yield name
    command(postgres_server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def address(postgres_server: str, stage: str, pooled: bool, request: pytest.FixtureRequest) -> str:
    """The connection string of that database, through the pooler where the tests go that way."""
    return within(request.getfixturevalue("pooler_server") if pooled else postgres_server, stage)


@pytest_asyncio.fixture
async def scene(
    nursery: Nursery, postgres_server: str, stage: str, address: str, pooled: bool, tmp_path: Path
) -> AsyncIterator[Open]:
    """Open the scene of a case; it is closed when the test ends."""
    direct = within(postgres_server, stage)
    async with AsyncExitStack() as stack:

        async def begin(
            replay: Replay = Replay.NEVER, policy: Policy = Policy.QUOTA, slots: int = 2, lease: timedelta = LEASE
        ) -> Scene:
            site = Site(address, pooled, tmp_path, replay, policy, lease)
            return await stack.enter_async_context(Scene.opened(site, direct, nursery, slots))

        yield begin

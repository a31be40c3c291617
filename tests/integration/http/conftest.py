"""A site of its own for every test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.http.site import Site, running


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path / "blobs") as found:
        yield found

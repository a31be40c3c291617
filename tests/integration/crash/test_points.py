"""The points themselves: their order, and that none is without its death."""

import re
from pathlib import Path

import pytest
from tests.integration.crash import page, table
from tests.integration.crash.scene import Open
from tests.integration.crash.site import LEASE, SCOPE, Policy

from imgproc_adapters.testing.crash import Death, Fate, FatedUnitOfWork
from imgproc_domain.attempt import Replay
from imgproc_domain.stage import Stage
from imgproc_domain.usecases.edit import delete_meme
from imgproc_domain.usecases.points import Point

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recovery.md"


@pytest.mark.parametrize("policy", Policy)
async def test_a_job_passes_the_points_of_its_stages_in_their_order(
    policy: Policy, scene: Open, tmp_path: Path
) -> None:
    here = await scene(policy=policy)
    await here.upload()
    passed: list[Point] = []
    # nobody passes the point of this fate: one transaction after the other, and nothing happens
    never = FatedUnitOfWork(here.uow, Fate("nowhere", Death.PASSED, tmp_path / "never"))
    async with here.working(passed.append, never):
        await here.rest()
    assert passed == [point for stage in Stage for point in here.order[stage]]


async def test_every_point_is_still_passed(scene: Open) -> None:
    here = await scene(Replay.NEVER)
    gone = (await here.upload("gone")).meme
    await here.dies_at(Stage.AGENT, Point.TASK_CLAIMED)
    await delete_meme(here.deployment(), SCOPE, gone.meme_id)
    await here.upload("cat")
    await here.elapse(LEASE)
    passed: list[Point] = []
    async with here.working(passed.append):
        await here.rest()
    assert set(passed) == set(Point)


def test_a_worker_dies_and_loses_a_reply_at_every_point() -> None:
    deaths = {*table.AGENT, *table.EXPIRY, *table.RELEASES}
    assert {point for point, death in deaths if death is Death.PASSED} == set(Point)
    # behind the last one nothing follows
    followed = set(Point) - {Point.RELEASE_FINISHED}
    assert {point for point, death in deaths if death is Death.COMMITTING} == followed
    assert {point for point, death in deaths if death is Death.REPLY_LOST} == followed
    assert set(table.AFTER) | set(table.BEFORE) | {table.Left.SETTLED} == set(table.Left)


def test_the_page_says_what_the_tests_check() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, wanted in page.TABLES.items():
        found = re.search(rf"<!-- {name}: [^\n]* -->\n\n(.*?)\n\n", text + "\n", re.DOTALL)
        assert found, f"docs/recovery.md has no table '{name}'"
        assert found[1] == wanted, f"docs/recovery.md, table '{name}', should be:\n\n{wanted}"

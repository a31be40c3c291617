"""The tables of docs/recovery.md, from the data that the tests are made from."""

from collections.abc import Iterable, Sequence
from typing import Final

from tests.integration.crash.table import AFTER, AGENT, BEFORE, DELETED, HANDED_OVER, RELEASES, Ending, Left, ending

from imgproc_adapters.testing.crash import Death
from imgproc_domain.attempt import Replay
from imgproc_domain.usecases.points import Point

_POINTS: Final = {
    Point.JOB_CLAIMED: "a due job is claimed",
    Point.ACQUIRED: "the policy granted the agent's request",
    Point.STAGE_OPENED: "the task is there, with its grant",
    Point.TASK_CLAIMED: "task, slot and attempt are taken",
    Point.POLICY_COMMITTED: "the policy spent the reservation",
    Point.GRANT_COMMITTED: "`grant_committed` is written",
    Point.EXTERNAL_STARTED: "`external_started` is written",
    Point.CALL_ENDED: "the answer is in this process",
    Point.SETTLED: "outcome and product are written",
}


_KINDS: Final = {
    Death.PASSED: "killed there",
    Death.COMMITTING: "killed before the next COMMIT",
    Death.REPLY_LOST: "the reply to that COMMIT lost",
}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _left(point: Point, death: Death) -> str:
    return AGENT[point, death].value.told


def _deaths() -> str:
    kinds = (Death.PASSED, Death.COMMITTING, Death.REPLY_LOST)
    rows = [[f"`{point}`", told, *(_left(point, kind) for kind in kinds)] for point, told in _POINTS.items()]
    in_call = ["in the call", "the agent is working", _left(Point.EXTERNAL_STARTED, Death.CALLING), "-", "-"]
    rows.insert(list(_POINTS).index(Point.CALL_ENDED), in_call)
    return _table(["point", "what is true there", *_KINDS.values()], rows)


def _endings() -> str:
    rows = [[left.value.told, *(ending(left, replay).value.told for replay in Replay)] for left in AFTER]
    same = {"; or ".join(left.value.told for left in BEFORE): Ending.GOES_ON, Left.SETTLED.value.told: Ending.DONE}
    rows += [[told, *[always.value.told] * len(Replay)] for told, always in same.items()]
    return _table(["left behind", *(f"replay = `{replay}`" for replay in Replay)], rows)


def _handed_over() -> str:
    calls = {Death.PASSED: "killed there", Death.CALLING: "killed in its call"}
    kinds = [*calls, Death.COMMITTING, Death.REPLY_LOST]
    rows = (
        [
            f"`{stage}`",
            *(HANDED_OVER[stage, kind].value.told if (stage, kind) in HANDED_OVER else "-" for kind in kinds),
        ]
        for stage in dict.fromkeys(stage for stage, _ in HANDED_OVER)
    )
    return _table(["stage", *(calls.get(kind) or _KINDS[kind] for kind in kinds)], rows)


def _releases() -> str:
    rows = ([f"`{point}`", _KINDS[death], owed.value.told] for (point, death), owed in RELEASES.items())
    return _table(["point", "death", "left behind, and what is done about it"], rows)


def _deleted() -> str:
    rows = ([f"`{point}`", given.told] for point, given in DELETED.items())
    return _table(["killed at", "the reservation"], rows)


TABLES: Final = {
    "deaths": _deaths(),
    "handed-over": _handed_over(),
    "endings": _endings(),
    "releases": _releases(),
    "deleted": _deleted(),
}

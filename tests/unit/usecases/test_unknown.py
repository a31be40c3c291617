"""Unknown executions: what a person sees of them, and how a person closes them."""

import ast
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site

import imgproc_domain
from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.models import NOTHING_KNOWN
from imgproc_adapters.testing.seed import OWNER, A, B
from imgproc_domain.claim import Claim
from imgproc_domain.errors import (
    CallMayBeRunning,
    ExecutionAlreadyResolved,
    ExecutionNotUnknown,
    InvalidValue,
    TaskNotFound,
)
from imgproc_domain.events import ExecutionResolved
from imgproc_domain.grant import GrantStatus
from imgproc_domain.ids import TaskId
from imgproc_domain.job import JobStatus
from imgproc_domain.outcome import Kind, Succeeded
from imgproc_domain.ports.evidence import Resolution, parse_resolution
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, Lane, TaskType
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.usecases.unknown import UnknownExecution, list_unknown, resolve_unknown, show_unknown

SRC = Path(imgproc_domain.__file__).parents[1]
SURE = Resolution("nothing was billed", "the console has no such request", True, True, "an operator")


async def _timed_out(site: Site) -> TaskId:
    """Make the next agent call one of which nothing is known, and return its task."""
    (execution,) = await site.claim(TaskType.CONTEXT)
    site.agent.script.then(NOTHING_KNOWN)
    await site.finish([execution])
    return execution.task.task_id


async def _unknown(slots: int = 1) -> tuple[Site, TaskId]:
    site = Site()
    await site.slots(slots)
    await site.upload()
    await site.until_agent()
    return site, await _timed_out(site)


async def _abandoned() -> tuple[Site, TaskId]:
    """The worker was lost in its call, which a later claim gave up: its slot waits under the earlier generation."""
    site = Site()
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    site.heartbeat.renew([execution.claim], timedelta(0))
    await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10)
    await site.run(TaskType.CONTEXT)
    assert execution.attempt is not None
    late = Settling(execution.claim, execution.attempt.attempt_id, Succeeded(None))
    await settle(site.deployment, A, [late])
    return site, execution.task.task_id


async def _listed(site: Site, *, resolved: bool | None = None) -> list[UnknownExecution]:
    return list((await list_unknown(site.deployment, A, None, 10, resolved=resolved)).executions)


def _taken(site: Site) -> int:
    return sum(slot.task_id is not None for slot in site.view().slots)


@pytest.mark.parametrize("made", [_unknown, _abandoned], ids=["timed out", "worker lost"])
async def test_an_unknown_execution_is_listed_with_the_slot_that_waits_for_its_call(
    made: Callable[[], Awaitable[tuple[Site, TaskId]]],
) -> None:
    site, task_id = await made()
    (found,) = await _listed(site)
    deadline = found.attempt.hard_deadline_at
    assert found.task.task_id == task_id
    assert found.meme is not None
    assert found.meme.meme_id == found.target.meme_id
    assert deadline is not None
    assert found.running_until == deadline
    assert [slot.free_at for slot in found.slots] == [deadline]
    assert found.resolved is None


async def test_after_its_hard_deadline_nothing_waits_for_a_call() -> None:
    site, _ = await _unknown()
    site.clock.advance(site.agent.hard_deadline)
    (found,) = await _listed(site)
    assert (found.running_until, found.slots) == (None, ())


async def test_unknown_executions_are_listed_newest_first_page_by_page() -> None:
    site, first = await _unknown(2)
    await site.upload("dog")
    await site.until_agent()
    await _timed_out(site)
    page = await list_unknown(site.deployment, A, None, 1)
    rest = await list_unknown(site.deployment, A, page.after, 1)
    (newer,), (older,) = page.executions, rest.executions
    assert newer.task.created_at >= older.task.created_at
    assert (older.task.task_id, rest.after) == (first, None)
    assert newer.task.task_id != first
    assert await _listed(site) == [newer, older]
    assert (await list_unknown(site.deployment, B, None, 10)).executions == ()


async def test_a_resolution_frees_the_slot_at_once_and_leaves_everything_else_as_it_is() -> None:
    site, task_id = await _unknown()
    before = site.view()
    resolved = await resolve_unknown(site.deployment, A, task_id, SURE)
    after = site.view()
    assert (resolved.resolution, resolved.resolved_at) == (SURE, site.clock.now())
    assert [slot.task_id for slot in after.slots] == [None]
    assert after.attested == [resolved.attempt_id]
    assert evolve(after, slots=before.slots, attested=()) == evolve(before, attested=())
    assert site.newest().status is JobStatus.UNKNOWN
    assert site.observer.of(ExecutionResolved) == [ExecutionResolved(A, task_id, resolved.attempt_id, 1)]


async def test_the_slot_of_a_lost_worker_is_freed_under_its_own_generation() -> None:
    site, task_id = await _abandoned()
    assert _taken(site) == 1
    await resolve_unknown(site.deployment, A, task_id, SURE)
    assert _taken(site) == 0


async def test_who_waits_for_the_slot_is_woken_and_gets_it() -> None:
    site, task_id = await _unknown()
    await site.upload("dog")
    await site.until_agent()
    assert await site.claim(TaskType.CONTEXT) == ()
    ear = MemoryListener(site.store)
    await ear.start()
    await resolve_unknown(site.deployment, A, task_id, SURE)
    assert await ear.wait(0) == {Topic.CONTEXT}
    assert len(await site.claim(TaskType.CONTEXT)) == 1


@pytest.mark.parametrize(("owner_dead", "call_over"), [(False, False), (True, False), (False, True)])
async def test_before_the_hard_deadline_a_call_is_not_closed_unless_its_end_is_vouched_for(
    *, owner_dead: bool, call_over: bool
) -> None:
    site, task_id = await _unknown()
    before = site.view()
    half = evolve(SURE, owner_dead=owner_dead, call_over=call_over)
    with pytest.raises(CallMayBeRunning) as refused:
        await resolve_unknown(site.deployment, A, task_id, half)
    (found,) = await _listed(site, resolved=False)
    assert refused.value.details["hard_deadline_at"] == found.attempt.hard_deadline_at
    assert site.view() == before
    assert site.observer.of(ExecutionResolved) == []
    site.clock.advance(site.agent.hard_deadline)
    resolved = await resolve_unknown(site.deployment, A, task_id, half)
    assert [row.resolved for row in await _listed(site, resolved=True)] == [resolved]
    assert site.observer.of(ExecutionResolved)[0].slots_freed == 0


async def test_a_slot_that_somebody_else_took_since_is_left_to_them() -> None:
    site, task_id = await _unknown()
    await site.upload("dog")
    await site.until_agent()
    site.clock.advance(site.agent.hard_deadline)
    (other,) = await site.claim(TaskType.CONTEXT)
    await resolve_unknown(site.deployment, A, task_id, SURE)
    assert [slot.task_id for slot in site.view().slots] == [other.task.task_id]


async def test_a_slot_is_given_back_on_a_persons_word_alone() -> None:
    site, task_id = await _unknown()
    later = site.clock.now() + 2 * site.agent.hard_deadline
    async with site.uow.begin(A) as tx:
        (held,) = await tx.evidence.slots([task_id])
        assert held.generation is not None
        await tx.slots.free(Lane.AGENT, [Claim(A, task_id, OWNER, held.generation)], {task_id: later})
    site.clock.advance(site.agent.hard_deadline)
    before = site.view().slots
    await resolve_unknown(site.deployment, A, task_id, evolve(SURE, call_over=False))
    assert site.view().slots == before


async def test_an_execution_is_resolved_once() -> None:
    site, task_id = await _unknown()
    first = await resolve_unknown(site.deployment, A, task_id, SURE)
    with pytest.raises(ExecutionAlreadyResolved):
        await resolve_unknown(site.deployment, A, task_id, evolve(SURE, reason="on second thoughts"))
    (found,) = await _listed(site)
    assert found.resolved == first
    assert found.running_until is None
    assert await _listed(site, resolved=False) == []


async def test_only_an_unknown_execution_can_be_shown_or_resolved() -> None:
    site = Site()
    await site.slots(1)
    await site.upload()
    await site.reconcile()
    (queued,) = (task.task_id for task in site.view().tasks)
    for ready in (site.reconcile, site.work_off):
        await ready()
        with pytest.raises(ExecutionNotUnknown):
            await show_unknown(site.deployment, A, queued)
        with pytest.raises(ExecutionNotUnknown):
            await resolve_unknown(site.deployment, A, queued, SURE)
    assert await _listed(site) == []


async def test_a_foreign_task_answers_as_one_nobody_has() -> None:
    site, task_id = await _unknown()
    nobodys = TaskId(site.deployment.ids.ordered(site.clock.now()))
    for scope, asked in ((B, task_id), (A, nobodys)):
        with pytest.raises(TaskNotFound, match=r"^there is no such task$"):
            await show_unknown(site.deployment, scope, asked)
        with pytest.raises(TaskNotFound, match=r"^there is no such task$"):
            await resolve_unknown(site.deployment, scope, asked, SURE)


async def test_everything_that_is_known_is_shown() -> None:
    site, task_id = await _abandoned()
    shown = await show_unknown(site.deployment, A, task_id)
    view = site.view()
    assert [shown.execution] == await _listed(site)
    assert list(shown.attempts) == [row for row in view.attempts if row.task_id == task_id]
    assert [grant for grant in view.grants if grant.task_id == task_id] == [shown.grant]
    assert shown.grant is not None
    assert shown.grant.status is GrantStatus.UNKNOWN
    assert [row.outcome for row in shown.late] == [Kind.SUCCEEDED]
    assert shown.newest == site.newest()
    resolved = await resolve_unknown(site.deployment, A, task_id, SURE)
    retried = await retry_job(site.deployment, A, site.newest().job_id)
    shown = await show_unknown(site.deployment, A, task_id)
    assert shown.execution.resolved == resolved
    assert shown.newest == retried


async def test_a_retry_needs_no_resolution_and_a_resolution_no_retry() -> None:
    site, task_id = await _unknown()
    await resolve_unknown(site.deployment, A, task_id, SURE)
    await site.work_off()
    assert len(site.view().jobs) == 1
    await retry_job(site.deployment, A, site.newest().job_id)
    await site.work_off()
    assert site.newest().status is JobStatus.SUCCEEDED


@pytest.mark.parametrize(("name", "longest"), [("reason", 500), ("evidence", 4_000), ("resolved_by", 200)], ids=str)
def test_what_a_person_writes_is_cleaned_and_never_cut(name: str, longest: int) -> None:
    said = {"reason": "r", "evidence": "e", "resolved_by": "b"}
    for right, kept in (("猫" * longest, "猫" * longest), ("  two\0 words\n", "two words"), (" x" + " " * 5_000, "x")):
        found = parse_resolution(**{**said, name: right}, owner_dead=True, call_over=False)
        assert getattr(found, name) == kept
    for wrong in ("", " \n\0", "x" * (longest + 1), "x" + " " * longest + "y"):
        with pytest.raises(InvalidValue, match=rf"^{name}: expected text of 1 to {longest} characters$"):
            parse_resolution(**{**said, name: wrong}, owner_dead=True, call_over=False)


@pytest.mark.parametrize(
    ("owner_dead", "call_over", "attested"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_both_the_worker_and_the_call_must_be_vouched_for(*, owner_dead: bool, call_over: bool, attested: bool) -> None:
    found = parse_resolution("r", "e", owner_dead=owner_dead, call_over=call_over, resolved_by="b")
    assert (found.owner_dead, found.call_over, found.attested) == (owner_dead, call_over, attested)


def _uses(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        match inner:
            case (
                ast.Name(id="resolve_unknown")
                | ast.Attribute(attr="resolve_unknown")
                | ast.alias(name="resolve_unknown")
            ):
                yield "use case"
            case ast.Attribute(attr="resolve", value=ast.Attribute(attr="evidence")):
                yield "store"


def test_only_people_resolve() -> None:
    """By the command line and by HTTP: nothing that runs by itself knows the use case, or the store's way to write."""
    users: dict[str, set[str]] = {"use case": set(), "store": set()}
    for path in SRC.glob("imgproc_*/**/*.py"):
        if path.is_relative_to(SRC / "imgproc_adapters" / "testing"):
            continue
        for used in set(_uses(ast.parse(path.read_text(encoding="utf-8")))):
            users[used].add(path.relative_to(SRC).as_posix())
    assert users["use case"] == {"imgproc_app/cli/unknown_command.py", "imgproc_adapters/http/executions.py"}
    assert users["store"] == {"imgproc_domain/usecases/unknown.py"}

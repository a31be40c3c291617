"""What comes back after its claim is gone is kept as evidence, and changes nothing."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from attrs import evolve
from tests.unit.usecases.site import Site

from imgproc_adapters.memory import schema
from imgproc_adapters.testing.faults import Fault
from imgproc_adapters.testing.seed import A
from imgproc_domain.claim import Fence
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import CommitOutcomeUnknown
from imgproc_domain.ids import AttemptId, TaskId, WorkerId
from imgproc_domain.outcome import Failed, Kind, Outcome, Succeeded
from imgproc_domain.ports.evidence import LateResult
from imgproc_domain.settlement import Fenced, Settling
from imgproc_domain.stage import IMAGE_TASK_TYPES, TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

NO = Diagnosis(ErrorCode.AGENT_REFUSED, "no")


async def _lost() -> tuple[Site, Execution]:
    """A worker whose agent call was started, and whose lease was taken away since."""
    site = Site()
    await site.slots(2)
    await site.upload()
    await site.until_agent()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.CONTEXT))).running
    site.heartbeat.renew([execution.claim], timedelta(0))
    assert await expire_leases(site.deployment, A, IMAGE_TASK_TYPES, 10) == 1
    return site, execution


def _settling(execution: Execution, outcome: Outcome) -> Settling:
    assert execution.attempt is not None
    return Settling(execution.claim, execution.attempt.attempt_id, outcome)


def _late(site: Site) -> Sequence[LateResult]:
    return list(site.store.rows(schema.LATE_RESULTS, A).values())


async def test_a_late_result_is_kept_without_its_product_and_changes_nothing_else() -> None:
    site, execution = await _lost()
    before = site.view()
    site.clock.advance(timedelta(seconds=1))
    outcome = await perform(site.deployment, execution)
    assert isinstance(outcome, Succeeded)
    assert outcome.product is not None
    assert await settle(site.deployment, A, [_settling(execution, outcome)]) == [
        Fenced(execution.claim, Fence.NOT_RUNNING)
    ]
    assert execution.attempt is not None
    kept = LateResult(
        scope=A,
        task_id=execution.task.task_id,
        attempt_id=execution.attempt.attempt_id,
        generation=execution.claim.generation,
        fence=Fence.NOT_RUNNING,
        outcome=Kind.SUCCEEDED,
        error=None,
        noted_at=site.clock.now(),
    )
    assert _late(site) == [kept]
    assert evolve(site.view(), now=before.now) == before


async def test_a_claim_leaves_one_late_result_however_often_it_comes_back() -> None:
    site, execution = await _lost()
    first, again = _settling(execution, Failed(NO)), _settling(execution, Succeeded(None))
    await settle(site.deployment, A, [first, again])
    site.clock.advance(timedelta(hours=1))
    await settle(site.deployment, A, [again])
    assert [(row.outcome, row.error) for row in _late(site)] == [(Kind.FAILED, NO)]


async def test_every_claim_that_comes_back_late_leaves_its_own() -> None:
    site, execution = await _lost()
    (later,) = await site.claim(TaskType.CONTEXT)
    site.heartbeat.renew([later.claim], timedelta(0))
    await settle(site.deployment, A, [_settling(later, Failed(NO)), _settling(execution, Failed(NO))])
    assert {(row.generation, row.fence) for row in _late(site)} == {
        (later.claim.generation, Fence.EXPIRED),
        (execution.claim.generation, Fence.GENERATION),
    }


async def test_a_result_that_is_taken_beside_a_late_one_is_none() -> None:
    site, execution = await _lost()
    await site.upload("dog")
    (visual,) = (await start(site.deployment, A, await site.claim(TaskType.VISUAL))).running
    await settle(site.deployment, A, [_settling(visual, Failed(NO)), _settling(execution, Failed(NO))])
    assert [row.task_id for row in _late(site)] == [execution.task.task_id]


async def test_what_belongs_to_no_task_or_no_attempt_leaves_no_trace() -> None:
    site, execution = await _lost()
    stranger = evolve(execution.claim, task_id=TaskId(site.deployment.ids.ordered(site.clock.now())))
    items = [Settling(stranger, AttemptId("a"), Failed(NO)), Settling(execution.claim, None, Failed(NO))]
    answers = await settle(site.deployment, A, items)
    assert [answer.reason for answer in answers if isinstance(answer, Fenced)] == [Fence.MISSING, Fence.NOT_RUNNING]
    assert _late(site) == []


async def test_the_evidence_is_kept_in_the_transaction_that_fenced() -> None:
    site, execution = await _lost()
    site.uow.plan(Fault.COMMIT_LOST)
    with pytest.raises(CommitOutcomeUnknown):
        await settle(site.deployment, A, [_settling(execution, Failed(NO))])
    assert _late(site) == []


async def test_a_late_result_of_a_stranger_names_why_it_was_refused() -> None:
    site = Site()
    await site.upload()
    (execution,) = (await start(site.deployment, A, await site.claim(TaskType.VISUAL))).running
    assert execution.attempt is not None
    claim = evolve(execution.claim, owner=WorkerId("somebody-else"))
    await settle(site.deployment, A, [Settling(claim, execution.attempt.attempt_id, Succeeded(None))])
    assert [row.fence for row in _late(site)] == [Fence.OWNER]

"""What a worker may claim, run, give back, settle and take away."""

from datetime import timedelta

import pytest
from tests.unit.usecases.site import Site, _settling, holds, never, turns

from imgproc_adapters.memory import MemoryListener
from imgproc_adapters.testing.models import Described
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker.worker import ImageProcessingWorker, Pace, TaskWorker
from imgproc_domain.attempt import Replay
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.events import LeaseExpired
from imgproc_domain.outcome import Unknown
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.maintenance import request_generation
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.start import start

VISUAL_LIMIT = 4


async def test_a_lane_claims_no_more_than_it_has_places() -> None:
    site = Site()
    for number in range(2 * VISUAL_LIMIT):
        await site.upload(f"cat {number}")
    lane, _ = site.lane(TaskType.VISUAL, never)
    for _ in range(3):
        await lane.turn()
    assert lane.busy == VISUAL_LIMIT
    await lane.finish(0)


async def test_an_external_call_that_was_cut_off_is_left_to_lease_recovery() -> None:
    site = Site()
    await site.slots(1)
    await site.upload()
    await site.until_agent()
    held = Held[Described](RuntimeError("never"))
    site.agent.script.then(held)
    lane, settler = site.lane(TaskType.CONTEXT, perform)
    await lane.turn()
    await held.started.wait()
    await lane.finish(0)
    settler.close()
    await settler.run()
    (task,) = (task for task in site.view().tasks if task.task_type is TaskType.CONTEXT)
    assert task.status is TaskStatus.RUNNING


async def test_outcomes_of_several_scopes_are_settled_each_in_its_own() -> None:
    site = Site()
    _, settler = site.lane(TaskType.VISUAL, perform)
    for scope in (A, B):
        await site.upload("cat", scope)
        for execution in (await start(site.deployment, scope, await site.claim(TaskType.VISUAL, scope=scope))).running:
            settler.put(await site._performed(execution))
    settler.close()
    await settler.run()
    for scope in (A, B):
        visual = [task for task in site.view(scope).tasks if task.task_type is TaskType.VISUAL]
        assert [task.status for task in visual] == [TaskStatus.SUCCEEDED]


async def test_an_outcome_that_cannot_be_settled_takes_no_other_with_it() -> None:
    site = Site(local=Replay.NEVER)
    _, settler = site.lane(TaskType.VISUAL, perform)
    for name in ("cat", "dog"):
        await site.upload(name)
    broken, sound = await site.claim(TaskType.VISUAL)
    # what no execution says of an attempt that was never started
    settler.put(_settling(broken, Unknown(Diagnosis(ErrorCode.VISUAL_FAILED, "a bug"))))
    for execution in (await start(site.deployment, A, [sound])).running:
        settler.put(await site._performed(execution))
    settler.close()
    await settler.run()
    by_id = {task.task_id: task.status for task in site.view().tasks}
    assert [by_id[e.task.task_id] for e in (broken, sound)] == [TaskStatus.RUNNING, TaskStatus.SUCCEEDED]


def test_the_worker_for_maintenance_takes_no_image_task() -> None:
    site = Site()
    parts = (site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store))
    with pytest.raises(ValueError, match="visual"):
        TaskWorker(*parts, {TaskType.VISUAL: perform})


async def test_a_worker_takes_no_lease_of_a_type_away_that_it_does_not_run() -> None:
    site = Site()
    await site.upload()
    await request_generation(site.deployment, A)
    lost = [*await site.claim(TaskType.VISUAL), *await site.claim(TaskType.CACHE)]
    site.heartbeat.renew([execution.claim for execution in lost], timedelta(0))
    worker = ImageProcessingWorker(
        site.deployment, site.dispatch, site.heartbeat, MemoryListener(site.store), Pace(poll=0.01, sweep=0.01)
    )
    await worker.start()
    await until(holds(lambda: bool(site.observer.of(LeaseExpired))))
    await worker.stop()
    await turns()
    assert {event.task_type for event in site.observer.of(LeaseExpired)} == {TaskType.VISUAL}

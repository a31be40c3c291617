"""Every invariant notices what breaks it."""

from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import (
    LONG_AGO,
    make_attempt,
    make_context,
    make_grant,
    make_job,
    make_meme,
    make_task,
    make_text_product,
    vector,
)
from imgproc_adapters.testing.invariants import check_invariants, regressions, violations
from imgproc_adapters.testing.view import View
from imgproc_adapters.testing.world import TEXT_SPACE
from imgproc_domain import attempt as attempts
from imgproc_domain import grant as grants
from imgproc_domain import job as jobs
from imgproc_domain import task as tasks
from imgproc_domain.claim import UNCLAIMED, drop
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import WorkerId
from imgproc_domain.job import JobStatus
from imgproc_domain.lane import Slot
from imgproc_domain.scope import LOCAL, Scope
from imgproc_domain.stage import Lane, Stage
from imgproc_domain.task import TaskStatus

NOW = LONG_AGO + timedelta(days=1)
LATER = NOW + timedelta(minutes=1)
WENT_WRONG = Diagnosis(ErrorCode.AGENT_FAILED, "it went wrong")

MEME = make_meme()
CONTEXT = make_context(MEME)
PRODUCT = make_text_product(MEME, CONTEXT, vector(1), TEXT_SPACE)
_JOB = make_job(MEME)
_QUEUED = make_task(_JOB, Stage.AGENT)
GRANT = grants.commit(make_grant(_QUEUED), NOW)
TASK = tasks.claim(evolve(_QUEUED, grant_id=GRANT.grant_id), WorkerId("worker-1"), NOW, timedelta(minutes=1))
JOB = jobs.open_stage(jobs.reuse(_JOB, [Stage.VISUAL]), Stage.AGENT, TASK.task_id, NOW)
ATTEMPT = attempts.start_external(attempts.commit_grant(make_attempt(TASK)), NOW, LATER)
SLOT = Slot(Lane.AGENT, 1, LOCAL, TASK.task_id, TASK.lease.generation)

SOUND = View(
    scope=LOCAL,
    now=NOW,
    memes=[MEME],
    contexts=[CONTEXT],
    jobs=[JOB],
    tasks=[TASK],
    attempts=[ATTEMPT],
    grants=[GRANT],
    slots=[SLOT],
    text=[PRODUCT],
    findable=[PRODUCT],
)

ENDED_JOB = jobs.fail_stage(JOB, Stage.AGENT, WENT_WRONG, NOW)
ENDED_TASK = tasks.fail(TASK, WENT_WRONG, NOW)
LOST_ATTEMPT = attempts.lose(ATTEMPT, WENT_WRONG, NOW)
FOREIGN = Scope("another")

BROKEN = {
    "I1: a row of another scope": evolve(SOUND, memes=[evolve(MEME, scope=FOREIGN)]),
    "I1: a job without its meme": evolve(SOUND, memes=[], contexts=[], text=[], findable=[]),
    "I1: an attempt without its task": evolve(SOUND, attempts=[ATTEMPT, make_attempt(make_task(_JOB))]),
    "I2: two active jobs": evolve(SOUND, jobs=[JOB, make_job(MEME, revision=2)]),
    "I2: two active tasks": evolve(SOUND, tasks=[TASK, make_task(_JOB, Stage.AGENT)]),
    "I6: a gap in the attempts": evolve(SOUND, attempts=[evolve(ATTEMPT, attempt_no=2)]),
    "I6: another attempt while one is open": evolve(SOUND, attempts=[ATTEMPT, make_attempt(TASK, 2)]),
    "I6: an open attempt of an ended task": evolve(SOUND, tasks=[ENDED_TASK], jobs=[ENDED_JOB]),
    "I7: an agent task without a grant": evolve(SOUND, tasks=[evolve(TASK, grant_id=None)]),
    "I7: a call before the commit": evolve(SOUND, grants=[make_grant(TASK)]),
    "I8: a release after a call": evolve(SOUND, grants=[grants.release(make_grant(TASK), NOW)]),
    "I8: one request granted twice": evolve(
        SOUND, grants=[GRANT, evolve(make_grant(TASK), logical_request_key=GRANT.logical_request_key)]
    ),
    "I10: an end of a live job": evolve(SOUND, jobs=[evolve(JOB, completed_at=NOW)]),
    "I10: an ended task that is held": evolve(SOUND, tasks=[evolve(TASK, status=TaskStatus.FAILED, completed_at=NOW)]),
    "I11: a later stage before an earlier": evolve(SOUND, jobs=[evolve(JOB, stages=JOB.stages[::-1])]),
    "I11: success without all stages": evolve(SOUND, jobs=[evolve(ENDED_JOB, status=JobStatus.SUCCEEDED)]),
    "I11: a running stage without a task": evolve(SOUND, tasks=[ENDED_TASK], attempts=[LOST_ATTEMPT]),
    "I14: an old vector is found": evolve(SOUND, contexts=[make_context(MEME, "other")]),
    "I14: a deleted meme is found": evolve(SOUND, memes=[evolve(MEME, deleted_at=NOW)]),
    "I14: a current vector is not found": evolve(SOUND, findable=[]),
    "I18: two slots for one claim": evolve(SOUND, slots=[SLOT, evolve(SLOT, number=2)]),
    "I18: a call without a slot": evolve(SOUND, slots=[Slot(Lane.AGENT, 1)]),
    "I18: a slot freed too early": evolve(SOUND, slots=[evolve(SLOT, free_at=NOW)]),
}

REGRESSED = {
    "I3: a generation that fell": (
        SOUND,
        evolve(SOUND, tasks=[evolve(TASK, status=TaskStatus.QUEUED, lease=UNCLAIMED)]),
    ),
    "I10: a task that came back": (
        evolve(SOUND, tasks=[ENDED_TASK]),
        evolve(SOUND, tasks=[evolve(TASK, lease=drop(TASK.lease))]),
    ),
    "I10: a job that came back": (evolve(SOUND, jobs=[ENDED_JOB]), SOUND),
    "I10: a grant that came back": (evolve(SOUND, grants=[grants.lose(GRANT, NOW)]), SOUND),
    "I10: an attempt that came back": (evolve(SOUND, attempts=[LOST_ATTEMPT]), SOUND),
    "I9: a replay of an unknown outcome": (
        evolve(SOUND, attempts=[LOST_ATTEMPT]),
        evolve(SOUND, attempts=[LOST_ATTEMPT, make_attempt(TASK, 2)]),
    ),
}


def test_a_sound_state_breaks_nothing() -> None:
    assert violations(SOUND) == []
    assert regressions(View(LOCAL, NOW), SOUND) == []
    check_invariants(SOUND, before=SOUND)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_at_one_moment_is_noticed(name: str) -> None:
    number = name.split(":", maxsplit=1)[0]
    assert any(sentence.startswith(f"{number}:") for sentence in violations(BROKEN[name]))
    with pytest.raises(AssertionError, match=number):
        check_invariants(BROKEN[name])


@pytest.mark.parametrize("name", REGRESSED)
def test_what_is_wrong_between_two_moments_is_noticed(name: str) -> None:
    before, after = REGRESSED[name]
    assert any(sentence.startswith(f"{name.split(':', maxsplit=1)[0]}:") for sentence in regressions(before, after))

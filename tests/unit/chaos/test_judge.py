"""Every kind of offence, put into a sound history one at a time, is named: the judge is not blind."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from attrs import evolve
from chaos import history
from chaos.evidence import Evidence, Kind
from chaos.history import Change
from chaos.judge import judge
from chaos.judge_calls import agent_calls, most_at_once
from chaos.models import FINGERPRINT, TEXT_SPACE, VISUAL_SPACE, Fate, described, picture_made, text_made
from chaos.reading import Reserved

from imgproc_adapters.testing import factories as make
from imgproc_adapters.testing.ledger import Call, Phase
from imgproc_adapters.testing.models import AGENT, TEXT, VISUAL
from imgproc_adapters.testing.view import View
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import Lease
from imgproc_domain.context import Context, ContextStatus, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.grant import GrantStatus
from imgproc_domain.job import Job, JobStatus, StageState
from imgproc_domain.lane import Slot
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, Lane, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Task, TaskStatus

SCOPE: Final = Scope("chaos-a")
T0: Final = make.LONG_AGO + timedelta(hours=1)
CLOCK: Final = T0.timestamp()
"""The ledger's time 0 is the database's T0."""

MEME: Final = make.make_meme(SCOPE)
SHA: Final = MEME.picture.sha256
OTHER_SHA: Final = make.digest("another picture")
WORDS: Final = described(SHA.hex, SCOPE, ReverseImagePolicy.FORBID)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def ended_task(job: Job, stage: Stage) -> Task:
    task = make.make_task(job, stage)
    return evolve(task, status=TaskStatus.SUCCEEDED, lease=Lease(1), started_at=at(0), completed_at=at(3))


def ended_attempt(task: Task, number: int = 1, status: AttemptStatus = AttemptStatus.COMPLETED) -> Attempt:
    return evolve(
        make.make_attempt(task, number),
        status=status,
        external_started_at=at(number),
        hard_deadline_at=at(number + 1.5),
        completed_at=at(number + 0.9),
        error=None if status is AttemptStatus.COMPLETED else Diagnosis(ErrorCode.AGENT_FAILED, "busy"),
    )


def call(model: str, key: str, phase: Phase, when: float, fate: Fate = Fate.ANSWERED) -> Call:
    return Call(model, key, phase, when, 1, fate)


def calls_of(attempt: Attempt, when: float, fate: Fate = Fate.ANSWERED) -> list[Call]:
    key = attempt.attempt_id
    return [call(AGENT, key, "started", when, fate), call(AGENT, key, "ended", when + 0.1, fate)]


JOB: Final = make.make_job(MEME)
TASKS: Final = {stage: ended_task(JOB, stage) for stage in STAGES}
ATTEMPTS: Final = {stage: ended_attempt(task) for stage, task in TASKS.items()}
AGENT_TASK: Final = TASKS[Stage.AGENT]
AGENT_ATTEMPT: Final = ATTEMPTS[Stage.AGENT]
GRANT: Final = evolve(make.make_grant(AGENT_TASK), status=GrantStatus.COMMITTED)
DONE: Final = evolve(
    JOB,
    status=JobStatus.SUCCEEDED,
    stages=tuple(StageState(stage, JobStatus.SUCCEEDED, task_id=TASKS[stage].task_id) for stage in STAGES),
    due_at=None,
    completed_at=at(4),
)
SAID_BY: Final = Provenance(
    Origin.AGENT,
    SHA,
    agent_fingerprint=FINGERPRINT,
    reverse_image_policy=ReverseImagePolicy.FORBID,
    attempt_id=AGENT_ATTEMPT.attempt_id,
)
CONTEXT: Final = Context(
    SCOPE,
    MEME.meme_id,
    ContextStatus.READY,
    1,
    WORDS,
    SAID_BY,
    at(2),
)
HASH: Final = CONTEXT.metadata_hash
assert HASH is not None
VECTOR: Final = TextProduct(MEME.meme_id, SHA, HASH, TEXT_SPACE.id, text_made(WORDS.embeddable_text()))
PICTURE: Final = VisualProduct(MEME.meme_id, SHA, VISUAL_SPACE.id, picture_made(SHA.hex))


def change(seq: int, tx: int, kind: str, key: object, state: str, number: int = 0, detail: str = "") -> Change:
    return Change(seq, tx, kind, SCOPE, str(key), state, number, detail)


def task_detail(task_type: TaskType) -> str:
    return f"{task_type} {MEME.meme_id} {SHA}"


def given_away(what: Change) -> Change:
    """Let the slot be free before its call is over."""
    return evolve(what, at=CLOCK + 1.12) if what.kind == history.SLOT and not what.state else what


def written_by(writer: str, what: Change) -> Change:
    return evolve(what, writer=writer)


CHANGES: Final = (
    change(1, 10, history.TASK, AGENT_TASK.task_id, "queued", 0, task_detail(TaskType.CONTEXT)),
    change(2, 11, history.TASK, AGENT_TASK.task_id, "running", 1, task_detail(TaskType.CONTEXT)),
    change(3, 11, history.ATTEMPT, AGENT_ATTEMPT.attempt_id, "prepared", 1, str(AGENT_TASK.task_id)),
    change(4, 12, history.ATTEMPT, AGENT_ATTEMPT.attempt_id, "grant_committed", 1, str(AGENT_TASK.task_id)),
    change(5, 13, history.ATTEMPT, AGENT_ATTEMPT.attempt_id, "external_started", 1, str(AGENT_TASK.task_id)),
    change(6, 14, history.CONTEXT, MEME.meme_id, "agent", 1, f"{AGENT_ATTEMPT.attempt_id} {SHA}"),
    change(7, 14, history.ATTEMPT, AGENT_ATTEMPT.attempt_id, "completed", 1, str(AGENT_TASK.task_id)),
    change(8, 14, history.TASK, AGENT_TASK.task_id, "succeeded", 1, task_detail(TaskType.CONTEXT)),
    change(9, 15, history.CONTEXT, MEME.meme_id, "person", 2, f"{SHA}"),
    change(10, 16, history.VISUAL, MEME.meme_id, "", 0, SHA.hex),
    evolve(change(12, 11, history.SLOT, 2, str(AGENT_TASK.task_id)), at=CLOCK + 0.5),
    evolve(change(13, 14, history.SLOT, 2, ""), at=CLOCK + 1.25),
    change(11, 16, history.TASK, TASKS[Stage.VISUAL].task_id, "succeeded", 1, task_detail(TaskType.VISUAL)),
)

VIEW: Final = View(
    scope=SCOPE,
    now=at(60),
    memes=[MEME],
    contexts=[CONTEXT],
    jobs=[DONE],
    tasks=list(TASKS.values()),
    attempts=list(ATTEMPTS.values()),
    grants=[GRANT],
    slots=[Slot(Lane.AGENT, 1), Slot(Lane.AGENT, 2, SCOPE, AGENT_TASK.task_id, 1, at(30))],
    visual=[PICTURE],
    text=[VECTOR],
    findable=[VECTOR],
)
SOUND: Final = Evidence(
    views=[VIEW],
    calls=[
        *calls_of(AGENT_ATTEMPT, 1.1),
        call(VISUAL, f"{SCOPE}/{SHA}", "started", 1.2),
        call(TEXT, WORDS.embeddable_text(), "started", 1.3),
    ],
    history=CHANGES,
    promised={DONE.job_id: SCOPE},
    texts=[WORDS.embeddable_text()],
    pending=[],
    reserved=[Reserved(SCOPE, GRANT.logical_request_key, committed=True, returned=False)],
    clock=CLOCK,
    lane=2,
    quota=True,
)

Edit = Callable[[Evidence], Evidence]


def rows(**changes: Any) -> Edit:
    return lambda evidence: evolve(evidence, views=[evolve(VIEW, **changes)])


def ledger(calls: Sequence[Call]) -> Edit:
    return lambda evidence: evolve(evidence, calls=[*evidence.calls, *calls])


def books(**changes: Any) -> Edit:
    return lambda evidence: evolve(evidence, reserved=[evolve(evidence.reserved[0], **changes)])


def told(*changes: Change) -> Edit:
    return lambda evidence: evolve(evidence, history=[*evidence.history, *changes])


def called_again(fate: Fate, status: AttemptStatus) -> Edit:
    """Let the task's attempt be the second one, behind a call that ended like this."""
    first = ended_attempt(AGENT_TASK, 1, status)
    second = evolve(AGENT_ATTEMPT, attempt_no=2)
    others = [ATTEMPTS[Stage.VISUAL], ATTEMPTS[Stage.TEXT]]
    return lambda evidence: evolve(
        evidence,
        views=[evolve(VIEW, attempts=[*others, first, second])],
        calls=[*evidence.calls, *calls_of(first, 0.5 + 0.6, fate)],
    )


GONE: Final = evolve(DONE, status=JobStatus.RUNNING, completed_at=None)
UNSTARTED: Final = evolve(AGENT_ATTEMPT, status=AttemptStatus.FAILED, external_started_at=None, hard_deadline_at=None)
OTHERS: Final = [ATTEMPTS[Stage.VISUAL], ATTEMPTS[Stage.TEXT]]
FOREIGN_WORDS: Final = described(OTHER_SHA.hex, SCOPE, ReverseImagePolicy.FORBID)

OFFENCES: Final[Sequence[tuple[str, Kind, Edit, str]]] = (
    ("a job that was promised", Kind.LOST, rows(jobs=[]), "was promised and does not exist"),
    ("a job that stays live", Kind.LOST, rows(jobs=[GONE]), "is running and nothing happens"),
    (
        "a task that stays live",
        Kind.LOST,
        rows(tasks=[*TASKS.values(), make.make_task(JOB, Stage.TEXT)]),
        "is queued and nothing happens",
    ),
    ("a picture that was never submitted", Kind.LOST, rows(memes=[MEME, make.make_meme(SCOPE)]), "has no job"),
    ("a picture that is not found", Kind.LOST, rows(findable=[]), "is not found"),
    (
        "a new picture without a job",
        Kind.LOST,
        rows(memes=[evolve(MEME, picture=make.make_picture("another picture"))]),
        "the present picture of meme",
    ),
    ("one attempt, two calls", Kind.DOUBLE_CALL, ledger(calls_of(AGENT_ATTEMPT, 1.3)), "made 2 calls"),
    (
        "one local attempt, two calls",
        Kind.DOUBLE_CALL,
        ledger([call(VISUAL, f"{SCOPE}/{SHA}", "started", 1.4)]),
        "2 calls in 1 started attempts",
    ),
    (
        "one text attempt, two calls",
        Kind.DOUBLE_CALL,
        ledger([call(TEXT, f"words 1 of a person\nabout {MEME.meme_id} in {SCOPE}", "started", 1.4)]),
        "2 calls in 1 started attempts",
    ),
    (
        "a call after one that nobody knows the end of",
        Kind.SILENT_REPLAY,
        called_again(Fate.HUNG, AttemptStatus.UNKNOWN),
        "hung (unknown_execution)",
    ),
    (
        "a call after one that was answered",
        Kind.SILENT_REPLAY,
        called_again(Fate.ANSWERED, AttemptStatus.FAILED),
        "answered (failed)",
    ),
    (
        "a call after a definite end that the database does not know",
        Kind.SILENT_REPLAY,
        called_again(Fate.BUSY, AttemptStatus.EXTERNAL_STARTED),
        "busy (external_started)",
    ),
    (
        "a call that no row knows",
        Kind.SILENT_REPLAY,
        ledger([call(AGENT, "stranger", "started", 1.0)]),
        "no row knows it",
    ),
    ("a call that never started", Kind.SILENT_REPLAY, rows(attempts=[*OTHERS, UNSTARTED]), "never started (failed)"),
    (
        "a call before its start was recorded",
        Kind.INVARIANT,
        rows(attempts=[*OTHERS, evolve(AGENT_ATTEMPT, external_started_at=at(1.3), hard_deadline_at=at(2.8))]),
        "I7: ",
    ),
    (
        "a vector of another picture",
        Kind.STALE_WRITE,
        rows(visual=[evolve(PICTURE, vector=picture_made(OTHER_SHA.hex))]),
        "is not of picture",
    ),
    (
        "a vector of other words",
        Kind.STALE_WRITE,
        rows(text=[evolve(VECTOR, vector=text_made("other words"))]),
        "is not of the words it is stored for",
    ),
    (
        "a vector of words that nobody said",
        Kind.STALE_WRITE,
        lambda evidence: evolve(evidence, texts=[]),
        "words that nobody said",
    ),
    (
        "found by what was not made",
        Kind.STALE_WRITE,
        rows(text=[evolve(VECTOR, space_id="another space")]),
        "no text stage made",
    ),
    (
        "a context by an attempt that failed",
        Kind.STALE_WRITE,
        rows(attempts=[*OTHERS, evolve(AGENT_ATTEMPT, status=AttemptStatus.FAILED)]),
        "which did not complete",
    ),
    (
        "a context made for another picture",
        Kind.STALE_WRITE,
        rows(contexts=[evolve(CONTEXT, provenance=evolve(SAID_BY, image_sha256=OTHER_SHA))]),
        "was made for meme",
    ),
    (
        "a context that says what nobody said",
        Kind.STALE_WRITE,
        rows(contexts=[evolve(CONTEXT, description=FOREIGN_WORDS)]),
        "says of it what nobody said",
    ),
    (
        "a product without the end of its task",
        Kind.STALE_WRITE,
        told(change(20, 20, history.TEXT, MEME.meme_id, "", 0, SHA.hex)),
        "while no task of picture",
    ),
    (
        "a product beside the end of a task of another picture",
        Kind.STALE_WRITE,
        told(
            change(20, 20, history.TEXT, MEME.meme_id, "", 0, OTHER_SHA.hex),
            change(21, 20, history.TASK, TASKS[Stage.TEXT].task_id, "succeeded", 1, task_detail(TaskType.TEXT)),
        ),
        "while no task of picture",
    ),
    (
        "a context by an attempt that ended elsewhere",
        Kind.STALE_WRITE,
        told(
            change(20, 20, history.CONTEXT, MEME.meme_id, "agent", 3, f"elsewhere {SHA}"),
            change(21, 20, history.TASK, "another", "succeeded", 1, task_detail(TaskType.CONTEXT)),
        ),
        "attempt elsewhere did not complete",
    ),
    (
        "a context over another one",
        Kind.STALE_WRITE,
        told(change(20, 20, history.CONTEXT, MEME.meme_id, "person", 2, SHA.hex)),
        "went from revision 2 to 2",
    ),
    (
        "a generation that fell",
        Kind.STALE_WRITE,
        told(change(20, 20, history.TASK, AGENT_TASK.task_id, "succeeded", 0, task_detail(TaskType.CONTEXT))),
        "fell from 1 to 0",
    ),
    (
        "a task written back by somebody else",
        Kind.STALE_WRITE,
        told(
            written_by("worker-1", change(20, 20, history.TASK, "another", "running", 3)),
            written_by("worker-2", change(21, 21, history.TASK, "another", "failed", 3)),
        ),
        "written back by worker-2, and held by worker-1",
    ),
    (
        "a task written back after its lease",
        Kind.STALE_WRITE,
        told(
            change(20, 20, history.TASK, "another", "running", 3),
            evolve(change(21, 21, history.TASK, "another", "succeeded", 3), late=True),
        ),
        "after its lease had run out",
    ),
    (
        "a task that came back",
        Kind.INVARIANT,
        told(change(20, 20, history.TASK, AGENT_TASK.task_id, "queued", 1, task_detail(TaskType.CONTEXT))),
        "I10: ",
    ),
    (
        "a claim under an old generation",
        Kind.INVARIANT,
        told(
            change(20, 20, history.TASK, "another", "queued", 3, task_detail(TaskType.CONTEXT)),
            change(21, 21, history.TASK, "another", "running", 3, task_detail(TaskType.CONTEXT)),
        ),
        "I3: ",
    ),
    (
        "a grant that is acquired for ever",
        Kind.LEAKED_GRANT,
        rows(grants=[evolve(GRANT, status=GrantStatus.ACQUIRED)]),
        "is acquired for ever",
    ),
    (
        "a call under a released grant",
        Kind.LEAKED_GRANT,
        rows(grants=[evolve(GRANT, status=GrantStatus.RELEASED)]),
        "under a grant that is released",
    ),
    ("a call without a grant", Kind.LEAKED_GRANT, rows(grants=[]), "without a grant"),
    (
        "a grant of no task",
        Kind.LEAKED_GRANT,
        rows(grants=[GRANT, make.make_grant(make.make_task(JOB, Stage.AGENT), key="another")]),
        "belongs to no task",
    ),
    (
        "a release that waits for ever",
        Kind.LEAKED_GRANT,
        lambda evidence: evolve(evidence, pending=["chaos-a key"]),
        "was never told of release chaos-a key",
    ),
    ("a reservation for ever", Kind.LEAKED_GRANT, books(committed=False), "is reserved for ever"),
    ("a reservation nobody used", Kind.LEAKED_GRANT, books(key="another"), "its grant is not there"),
    ("a call on what was given back", Kind.LEAKED_GRANT, books(committed=False, returned=True), "the policy's books"),
    (
        "a slot for ever",
        Kind.LEAKED_SLOT,
        rows(slots=[Slot(Lane.AGENT, 1), Slot(Lane.AGENT, 2, SCOPE, AGENT_TASK.task_id, 1)]),
        "is held for ever",
    ),
    (
        "a slot for longer than any call",
        Kind.LEAKED_SLOT,
        rows(slots=[Slot(Lane.AGENT, 1), Slot(Lane.AGENT, 2, SCOPE, AGENT_TASK.task_id, 1, at(90))]),
        "and nothing runs",
    ),
    (
        "a call whose slot was given away",
        Kind.LEAKED_SLOT,
        lambda evidence: evolve(evidence, history=[*map(given_away, evidence.history)]),
        "was in flight without a slot",
    ),
    ("a slot that is gone", Kind.LEAKED_SLOT, rows(slots=[Slot(Lane.AGENT, 1)]), "a lane of 2 has 1 slots"),
    (
        "a call after its hard deadline",
        Kind.LEAKED_SLOT,
        rows(attempts=[*OTHERS, evolve(AGENT_ATTEMPT, external_started_at=at(0), hard_deadline_at=at(1))]),
        "0.10 s after its hard deadline",
    ),
    (
        "more calls than the lane has slots",
        Kind.LEAKED_SLOT,
        lambda evidence: evolve(evidence, lane=0, views=[evolve(VIEW, slots=[])]),
        "1 agent calls were in flight at once",
    ),
    (
        "any other invariant",
        Kind.INVARIANT,
        rows(visual=[PICTURE, evolve(PICTURE, meme_id=make.make_meme(SCOPE).meme_id)]),
        "I1: ",
    ),
)


def test_a_sound_history_is_left_in_peace() -> None:
    assert judge(SOUND) == []


def test_a_definite_transient_answer_may_be_followed_by_another_call() -> None:
    assert judge(called_again(Fate.BUSY, AttemptStatus.FAILED)(SOUND)) == []


def test_a_lease_that_ran_out_may_be_revoked_by_anybody() -> None:
    claimed = written_by("worker-1", change(20, 20, history.TASK, "another", "running", 3))
    revoked = written_by("worker-2", change(21, 21, history.TASK, "another", "queued", 4))
    assert judge(told(claimed, revoked)(SOUND)) == []


@pytest.mark.parametrize(("kind", "edit", "sentence"), [o[1:] for o in OFFENCES], ids=[o[0] for o in OFFENCES])
def test_an_offence_is_named(kind: Kind, edit: Edit, sentence: str) -> None:
    named = judge(edit(SOUND))
    assert any(offence.kind is kind and sentence in offence.what for offence in named), "\n".join(map(str, named))


def test_a_call_whose_caller_died_is_in_flight_until_its_hard_deadline() -> None:
    second = ended_attempt(ended_task(JOB, Stage.AGENT), 2)
    view = evolve(VIEW, tasks=[*TASKS.values(), second_task(second)], attempts=[*ATTEMPTS.values(), second])
    started = [call(AGENT, AGENT_ATTEMPT.attempt_id, "started", 1.1), *calls_of(second, 2.4)]
    overlapping, _ = agent_calls(evolve(SOUND, views=[view], calls=started))
    assert most_at_once(overlapping, CLOCK) == 2
    later, _ = agent_calls(evolve(SOUND, views=[view], calls=[started[0], *calls_of(second, 2.6)]))
    assert most_at_once(later, CLOCK) == 1


def second_task(attempt: Attempt) -> Task:
    return evolve(AGENT_TASK, task_id=attempt.task_id)

"""Judges of the ledger: calls made twice, made again, made without permission, and too many at once."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from attrs import frozen

from chaos import history
from chaos.evidence import Evidence, Kind, Offence
from chaos.history import Change
from chaos.models import Fate
from imgproc_adapters.testing.ledger import Call
from imgproc_adapters.testing.models import AGENT, TEXT, VISUAL
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import GrantId, TaskId
from imgproc_domain.scope import Scope
from imgproc_domain.stage import TaskType
from imgproc_domain.task import Task

SLACK: Final = 0.05
"""Seconds by which a time of the database and one of the ledger may differ though they are the same."""

_SPENT: Final = (GrantStatus.COMMITTED, GrantStatus.UNKNOWN)


@frozen
class AgentCall:
    """One call in the ledger, with the attempt that it is of; ``ended`` is None if the caller died first."""

    started: Call
    ended: Call | None
    attempt: Attempt
    task: Task


def judge_calls(evidence: Evidence) -> Iterator[Offence]:
    yield from _made_twice(evidence)
    made, strangers = agent_calls(evidence)
    for key in strangers:
        yield Offence(Kind.SILENT_REPLAY, f"attempt {key} made a call, and no row knows it")
    yield from _made_again(made)
    yield from _without_start(made, evidence.clock)
    yield from _without_grant(evidence, made)
    yield from _at_once(made, evidence)
    yield from _without_slot(made, evidence)
    yield from _local_too_often(evidence)


def agent_calls(evidence: Evidence) -> tuple[list[AgentCall], list[str]]:
    """Join the ledger with the rows; the second value holds the keys that no row has."""
    attempts = {a.attempt_id: a for view in evidence.views for a in view.attempts}
    tasks = {t.task_id: t for view in evidence.views for t in view.tasks}
    ended = {c.key: c for c in evidence.calls if c.model == AGENT and c.phase == "ended"}
    made, strangers = [], []
    for call in evidence.calls:
        if call.model != AGENT or call.phase != "started":
            continue
        attempt = attempts.get(call.key)  # type: ignore[call-overload]  # a ledger's key is the id it was given
        if attempt is None:
            strangers.append(call.key)
        else:
            made.append(AgentCall(call, ended.get(call.key), attempt, tasks[attempt.task_id]))
    return made, strangers


def _made_twice(evidence: Evidence) -> Iterator[Offence]:
    started = Counter(c.key for c in evidence.calls if c.model == AGENT and c.phase == "started")
    for key, count in started.items():
        if count > 1:
            yield Offence(Kind.DOUBLE_CALL, f"attempt {key} made {count} calls")


def _made_again(made: Sequence[AgentCall]) -> Iterator[Offence]:
    """A call after another one of its task needs a definite and transient end of that one, known to the database."""
    by_task: defaultdict[TaskId, list[AgentCall]] = defaultdict(list)
    for call in made:
        by_task[call.task.task_id].append(call)
    for task_id, calls in by_task.items():
        in_order = sorted(calls, key=lambda call: call.attempt.attempt_no)
        for before, after in pairwise(in_order):
            known = before.attempt.status is AttemptStatus.FAILED and before.started.outcome == Fate.BUSY
            if not known:
                how = f"{before.started.outcome} ({before.attempt.status})"
                first, second = before.attempt.attempt_id, after.attempt.attempt_id
                yield Offence(Kind.SILENT_REPLAY, f"task {task_id}: attempt {second} called after {first}: {how}")


def _without_start(made: Sequence[AgentCall], clock: float) -> Iterator[Offence]:
    """A call is made after ``external_started`` is persisted, and before its hard deadline."""
    for call in made:
        attempt, at = call.attempt, call.started.at + clock
        if attempt.external_started_at is None or attempt.hard_deadline_at is None:
            what = f"attempt {attempt.attempt_id} made a call, its row says that it never started ({attempt.status})"
            yield Offence(Kind.SILENT_REPLAY, what)
            continue
        if at < _seconds(attempt.external_started_at) - SLACK:
            yield Offence(Kind.INVARIANT, f"I7: attempt {attempt.attempt_id} called before its start was recorded")
        late = at - _seconds(attempt.hard_deadline_at)
        if late > SLACK:
            what = f"attempt {attempt.attempt_id} called {late:.2f} s after its hard deadline"
            yield Offence(Kind.LEAKED_SLOT, what)


def _without_grant(evidence: Evidence, made: Sequence[AgentCall]) -> Iterator[Offence]:
    """A call is made under a grant that is committed, also in the books of the policy."""
    grants: dict[GrantId, Grant] = {g.grant_id: g for view in evidence.views for g in view.grants}
    reserved = {(r.scope, r.key): r for r in evidence.reserved}
    for call in made:
        key = call.attempt.attempt_id
        grant = grants.get(call.task.grant_id) if call.task.grant_id else None
        if grant is None or grant.task_id != call.task.task_id:
            yield Offence(Kind.LEAKED_GRANT, f"attempt {key} made a call without a grant")
            continue
        if grant.status not in _SPENT:
            yield Offence(Kind.LEAKED_GRANT, f"attempt {key} made a call under a grant that is {grant.status}")
        if evidence.quota:
            entry = reserved.get((grant.scope, grant.logical_request_key))
            if entry is None or entry.returned or not entry.committed:
                what = f"attempt {key} made a call, and the policy's books have {entry}"
                yield Offence(Kind.LEAKED_GRANT, what)


def most_at_once(made: Sequence[AgentCall], clock: float) -> int:
    """Return how many agent calls were in flight at once, at most.

    One whose caller died is in flight until its hard deadline; none is after that.
    """
    moments: list[tuple[float, int]] = []
    for call in made:
        begin, end = _in_flight(call, clock)
        if begin < end:
            moments += [(begin, 1), (end, -1)]
    running = most = 0
    # at the same moment the one that ends makes room for the one that begins
    for _, step in sorted(moments):
        running += step
        most = max(most, running)
    return most


def _in_flight(call: AgentCall, clock: float) -> tuple[float, float]:
    """Return when a call began and was certainly over, by the ledger's clock."""
    begin, deadline = call.started.at, call.attempt.hard_deadline_at
    latest = begin if deadline is None else _seconds(deadline) - clock
    return begin, min(call.ended.at, latest) if call.ended else latest


def _without_slot(made: Sequence[AgentCall], evidence: Evidence) -> Iterator[Offence]:
    """As long as a call is in flight its task has a slot, by the history of the slots."""
    held: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    last: dict[str, Change] = {}
    for change in (each for each in evidence.history if each.kind == history.SLOT):
        before = last.get(change.key)
        last[change.key] = change
        if before is not None and before.state:
            held[before.state].append((before.at, change.at))
    for change in last.values():
        if change.state:
            held[change.state].append((change.at, math.inf))
    for call in made:
        begin, end = (moment + evidence.clock for moment in _in_flight(call, evidence.clock))
        task_id = str(call.task.task_id)
        if begin < end and not any(since - SLACK <= begin and end <= until + SLACK for since, until in held[task_id]):
            what = f"attempt {call.attempt.attempt_id} of task {task_id} was in flight without a slot"
            yield Offence(Kind.LEAKED_SLOT, what)


def _at_once(made: Sequence[AgentCall], evidence: Evidence) -> Iterator[Offence]:
    most = most_at_once(made, evidence.clock)
    if most > evidence.lane:
        yield Offence(Kind.LEAKED_SLOT, f"{most} agent calls were in flight at once in a lane of {evidence.lane}")


def _local_too_often(evidence: Evidence) -> Iterator[Offence]:
    """A local model is called once a started attempt: it is not told which, but every input names its picture."""
    tasks = {t.task_id: t for view in evidence.views for t in view.tasks}
    started: Counter[tuple[str, Scope, str]] = Counter()
    for attempt in (a for view in evidence.views for a in view.attempts if a.external_started_at is not None):
        task = tasks[attempt.task_id]
        if task.target is None:
            continue
        if task.task_type is TaskType.VISUAL:
            started[VISUAL, task.scope, task.target.image_sha256.hex] += 1
        elif task.task_type is TaskType.TEXT:
            started[TEXT, task.scope, str(task.target.meme_id)] += 1
    called: Counter[tuple[str, Scope, str]] = Counter()
    of_picture = _memes_by_picture(evidence)
    for call in (c for c in evidence.calls if c.phase == "started" and c.model in (VISUAL, TEXT)):
        scope, subject = _subject(call)
        called[call.model, scope, of_picture.get((scope, subject), subject) if call.model == TEXT else subject] += 1
    for what, count in called.items():
        if count > started[what]:
            message = f"{what[0]} of {what[2]} in {what[1]}: {count} calls in {started[what]} started attempts"
            yield Offence(Kind.DOUBLE_CALL, message)


def _memes_by_picture(evidence: Evidence) -> dict[tuple[Scope, str], str]:
    """Every version of every picture has its own digest, which its first job names."""
    return {(j.scope, j.image_sha256.hex): str(j.meme_id) for view in evidence.views for j in view.jobs}


def _subject(call: Call) -> tuple[Scope, str]:
    """Return what a local call was about: "scope/sha", or a text of which the agent's or a person's words say it."""
    if call.model == VISUAL:
        scope, _, sha256 = call.key.partition("/")
        return Scope(scope), sha256
    words = call.key.split()
    if words[0] == "picture":
        return Scope(words[3]), words[1]
    return Scope(words[words.index("in") + 1]), words[words.index("about") + 1]


def _seconds(moment: datetime) -> float:
    return moment.timestamp()

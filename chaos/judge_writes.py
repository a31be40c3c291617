"""Judges of what was written: by whom, in which transaction, made of what, and in which order."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chaos import history
from chaos.evidence import Evidence, Kind, Offence
from chaos.history import Change
from chaos.models import described, picture_made, text_made
from imgproc_adapters.testing.view import View
from imgproc_domain import attempt, grant, job, task
from imgproc_domain.attempt import AttemptStatus
from imgproc_domain.context import SCHEMA_VERSION, Context, Origin
from imgproc_domain.ids import Sha256
from imgproc_domain.product import TextProduct
from imgproc_domain.stage import TaskType
from imgproc_domain.task import TaskStatus

NEAR: Final = 1e-3
"""Cosine distance within which two vectors are one: vectors are stored in half precision."""

_EDGES: Final = {
    history.TASK: {str(a): {str(b) for b in after} for a, after in task.EDGES.items()},
    history.JOB: {str(a): {str(b) for b in after} for a, after in job.EDGES.items()},
    history.ATTEMPT: {str(a): {str(b) for b in after} for a, after in attempt.EDGES.items()},
    history.GRANT: {str(a): {str(b) for b in after} for a, after in grant.EDGES.items()},
}
_TYPE_OF: Final = {history.CONTEXT: TaskType.CONTEXT, history.VISUAL: TaskType.VISUAL, history.TEXT: TaskType.TEXT}


def judge_writes(evidence: Evidence) -> Iterator[Offence]:
    yield from _steps(evidence.history)
    yield from _unfenced(evidence.history)
    yield from _by_strangers(evidence.history)
    hashes = {str(Sha256.of(SCHEMA_VERSION, text)): text for text in evidence.texts}
    for view in evidence.views:
        yield from _contexts(view)
        yield from _vectors(view, hashes)


def _steps(changes: Sequence[Change]) -> Iterator[Offence]:
    """Every row moves along its edges, and no generation or revision falls."""
    last: dict[tuple[str, str], Change] = {}
    for change in changes:
        edges = _EDGES.get(change.kind)
        before = last.get((change.kind, change.key))
        last[change.kind, change.key] = change
        if before is None:
            continue
        name = f"{change.kind} {change.key}"
        if change.number < before.number:
            yield Offence(Kind.STALE_WRITE, f"I3: {name} fell from {before.number} to {change.number}")
        if change.kind == history.CONTEXT and change.number != before.number + 1:
            what = f"{name} went from revision {before.number} to {change.number}"
            yield Offence(Kind.STALE_WRITE, what)
        if edges is None:
            continue
        if change.state != before.state and change.state not in edges[before.state]:
            yield Offence(Kind.INVARIANT, f"I10: {name} went from {before.state} to {change.state}")
        claimed = (before.state, change.state) == (TaskStatus.QUEUED, TaskStatus.RUNNING)
        if change.kind == history.TASK and claimed and change.number != before.number + 1:
            what = f"I3: {name} was claimed from generation {before.number} to {change.number}"
            yield Offence(Kind.INVARIANT, what)


def _unfenced(changes: Sequence[Change]) -> Iterator[Offence]:
    """A product is written in the transaction in which its own task succeeds, by a claim that was current."""
    written: defaultdict[int, list[Change]] = defaultdict(list)
    for change in changes:
        written[change.tx].append(change)
    for together in written.values():
        succeeded = {c.detail for c in together if c.kind == history.TASK and c.state == TaskStatus.SUCCEEDED}
        completed = {c.key for c in together if c.kind == history.ATTEMPT and c.state == AttemptStatus.COMPLETED}
        for change in together:
            task_type = _TYPE_OF.get(change.kind)
            if task_type is None or (change.kind == history.CONTEXT and change.state == Origin.PERSON):
                continue
            attempt_id, _, sha256 = change.detail.rpartition(" ")
            if f"{task_type} {change.key} {sha256}" not in succeeded:
                what = f"the {change.kind} of meme {change.key} was written while no task of picture {sha256} succeeded"
                yield Offence(Kind.STALE_WRITE, what)
            elif change.kind == history.CONTEXT and attempt_id not in completed:
                what = f"the context of meme {change.key} was written while attempt {attempt_id} did not complete"
                yield Offence(Kind.STALE_WRITE, what)


def _by_strangers(changes: Sequence[Change]) -> Iterator[Offence]:
    """Only the process that claimed a task ends the claim, before its lease runs out; whoever else does revokes it."""
    holders: dict[str, Change] = {}
    for change in changes:
        if change.kind != history.TASK:
            continue
        holder = holders.pop(change.key, None)
        if change.state == TaskStatus.RUNNING:
            holders[change.key] = change
        if change.late:
            what = f"I4: task {change.key} was written back by {change.writer} after its lease had run out"
            yield Offence(Kind.STALE_WRITE, what)
        elif holder and change.number == holder.number and change.writer != holder.writer:
            what = f"I4: task {change.key} was written back by {change.writer}, and held by {holder.writer}"
            yield Offence(Kind.STALE_WRITE, what)


def _contexts(view: View) -> Iterator[Offence]:
    """An agent's context is what the agent says of that picture, by an attempt that completed for it."""
    attempts = {a.attempt_id: a for a in view.attempts}
    tasks = {t.task_id: t for t in view.tasks}
    for context in view.contexts:
        origin = context.provenance
        if origin is None or origin.origin is not Origin.AGENT:
            continue
        made_by = attempts.get(origin.attempt_id) if origin.attempt_id else None
        target = tasks[made_by.task_id].target if made_by else None
        if made_by is None or made_by.status is not AttemptStatus.COMPLETED or target is None:
            what = f"the context of meme {context.meme_id} is of attempt {origin.attempt_id}, which did not complete"
            yield Offence(Kind.STALE_WRITE, what)
        elif (target.meme_id, target.image_sha256) != (context.meme_id, origin.image_sha256):
            what = f"the context of meme {context.meme_id} was made for meme {target.meme_id}, {target.image_sha256}"
            yield Offence(Kind.STALE_WRITE, what)
        elif not _as_described(context, view):
            yield Offence(Kind.STALE_WRITE, f"the context of meme {context.meme_id} says of it what nobody said")


def _as_described(context: Context, view: View) -> bool:
    origin = context.provenance
    assert origin is not None, "an agent's context has it"
    policy = origin.reverse_image_policy
    return policy is not None and context.description == described(origin.image_sha256.hex, view.scope, policy)


def _vectors(view: View, hashes: Mapping[str, str]) -> Iterator[Offence]:
    """Every stored vector is the one that the model makes of the very input it is stored for."""
    for visual in view.visual:
        if visual.vector.cosine_distance(picture_made(visual.image_sha256.hex)) > NEAR:
            what = f"the visual vector of meme {visual.meme_id} is not of picture {visual.image_sha256}"
            yield Offence(Kind.STALE_WRITE, what)
    for product in (*view.text, *view.findable):
        text = hashes.get(product.metadata_hash.hex)
        if text is None:
            what = f"meme {product.meme_id} has a vector of words that nobody said ({product.metadata_hash})"
            yield Offence(Kind.STALE_WRITE, what)
        elif product.vector.cosine_distance(text_made(text)) > NEAR:
            what = f"the vector of meme {product.meme_id} is not of the words it is stored for"
            yield Offence(Kind.STALE_WRITE, what)
    yield from _searchable(view)


def _searchable(view: View) -> Iterator[Offence]:
    """What is found is what was made."""
    made: dict[tuple[object, ...], TextProduct] = {_key(product): product for product in view.text}
    for found in view.findable:
        source = made.get(_key(found))
        if source is None or source.vector.cosine_distance(found.vector) > NEAR:
            what = f"meme {found.meme_id} is found by a vector that no text stage made"
            yield Offence(Kind.STALE_WRITE, what)


def _key(product: TextProduct) -> tuple[object, ...]:
    return (product.meme_id, product.image_sha256, product.metadata_hash, product.space_id)

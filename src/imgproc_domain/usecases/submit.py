"""Create or reuse jobs: the one way in for upload, replacement, seeding and explicit retries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from attrs import frozen

from imgproc_domain import job as jobs
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.errors import GenerationPolicyConflict, MemeNotFound
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.submission import (
    FIRST,
    Conflict,
    Mode,
    NewRevision,
    Reuse,
    Signature,
    Submission,
    Verdict,
    asks_for_tried,
    decide,
    why_withheld,
)
from imgproc_domain.usecases.advance import Gathered, Plan, begin, gather, open_revision, write
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.validity import first_stale_stage


@frozen
class Submitted:
    """The job that now stands for the submission; ``created`` if it was opened for it."""

    job: Job
    created: bool


@frozen
class _Stored:
    """What a submit reads under the locks of its memes; ``newest`` holds those that have a job."""

    now: datetime
    newest: Mapping[MemeId, Job]
    gathered: Gathered


Submittal = Submitted | GenerationPolicyConflict | MemeNotFound


async def submit(deployment: Deployment, scope: Scope, submissions: Sequence[Submission]) -> Sequence[Submittal]:
    """Submit memes, each independent of the others; answers stand in the order of the submissions."""

    async def once() -> tuple[Sequence[Submittal], Plan]:
        async with deployment.uow.begin(scope) as tx:
            meme_ids = {s.meme_id for s in submissions}
            # in this order: what is read behind a lock is read as it is under the lock
            memes, stored = await tx.together(tx.memes.lock(meme_ids), _read(tx, deployment, meme_ids))
            return await _submit(tx, deployment, submissions, memes, stored)

    answers, plan = await decided_again(once)
    for event in plan.events:
        deployment.observer.note(event)
    return answers


async def submit_locked(
    tx: Transaction, deployment: Deployment, submissions: Sequence[Submission], memes: Mapping[MemeId, Meme]
) -> tuple[Sequence[Submittal], Plan]:
    """Submit memes that this transaction has locked, or just inserted, and write the result."""
    return await _submit(tx, deployment, submissions, memes, await _read(tx, deployment, memes.keys()))


async def _read(tx: Transaction, deployment: Deployment, meme_ids: Collection[MemeId]) -> _Stored:
    return _Stored(*await tx.together(tx.now(), tx.jobs.newest(meme_ids), gather(tx, deployment, meme_ids)))


async def _submit(
    tx: Transaction,
    deployment: Deployment,
    submissions: Sequence[Submission],
    memes: Mapping[MemeId, Meme],
    stored: _Stored,
) -> tuple[Sequence[Submittal], Plan]:
    verdicts = await _decide(tx, submissions, memes, stored)
    closing = [v.closes.job_id for v in verdicts.values() if isinstance(v, NewRevision) and v.closes]
    locked = await tx.jobs.lock(closing) if closing else {}
    first: dict[MemeId, Submission] = {}
    for s in submissions:
        first.setdefault(s.meme_id, s)
    withheld = await _withheld(tx, first.values(), memes, verdicts) if stored.newest else {}
    plan = Plan()
    opened: dict[MemeId, Job] = {}
    for meme_id, verdict in verdicts.items():
        if isinstance(verdict, NewRevision):
            meme, diagnosis = memes[meme_id], withheld.get(meme_id)
            _close(plan, verdict, locked, stored.now)
            job = _revision(deployment, stored, first[meme_id], meme, verdict, diagnosis)
            opened[meme_id] = begin(plan, deployment, stored.gathered, job, meme, stored.now)
    await write(tx, plan)
    return [_answer(s, verdicts.get(s.meme_id), opened) for s in submissions], plan


async def _decide(
    tx: Transaction,
    submissions: Sequence[Submission],
    memes: Mapping[MemeId, Meme],
    stored: _Stored,
) -> dict[MemeId, Verdict]:
    """Return what becomes of the submissions of memes that exist."""
    verdicts: dict[MemeId, Verdict] = {}
    again: list[tuple[Submission, PictureVersion, Job]] = []
    for s in submissions:
        meme, job = memes.get(s.meme_id), stored.newest.get(s.meme_id)
        if meme is None or not meme.exists:
            continue
        if job is None:
            verdicts[s.meme_id] = FIRST
        else:
            again.append((s, PictureVersion(s.meme_id, meme.picture.sha256, s.policy), job))
    asking = [target for s, target, job in again if asks_for_tried(job, target.image_sha256, s.policy, s.mode)]
    tried = await tx.jobs.newest_of(asking) if asking else {}
    config, products = stored.gathered.config, stored.gathered.products
    for s, target, job in again:
        stale = first_stale_stage(target.image_sha256, config, s.policy, products[s.meme_id])
        wanted = Signature(target.image_sha256, s.policy, config.fingerprint)
        verdicts[s.meme_id] = decide(job, wanted, s.mode, all_valid=stale is None, tried=tried.get(target))
    return verdicts


async def _withheld(
    tx: Transaction,
    submissions: Iterable[Submission],
    memes: Mapping[MemeId, Meme],
    verdicts: Mapping[MemeId, Verdict],
) -> Mapping[MemeId, Diagnosis]:
    """Return the memes whose next revision must not call the agent: a call may have been made, and nobody asks again.

    A revision that closes another one of its target may do what that one might. A first revision costs no statement.
    """
    found: dict[MemeId, Diagnosis] = {}
    asking: list[PictureVersion] = []
    for s in submissions:
        verdict = verdicts.get(s.meme_id)
        if not isinstance(verdict, NewRevision) or s.mode is Mode.EXPLICIT or verdict.revision == 1:
            continue
        target = PictureVersion(s.meme_id, memes[s.meme_id].picture.sha256, s.policy)
        if verdict.closes is None or PictureVersion.of(verdict.closes) != target:
            asking.append(target)
        elif verdict.closes.withheld is not None:
            found[s.meme_id] = verdict.closes.withheld
    last = await tx.tasks.last_agents(asking) if asking else {}
    reasons = ((target.meme_id, why_withheld(last.get(target))) for target in asking)
    return found | {meme_id: reason for meme_id, reason in reasons if reason is not None}


def _close(plan: Plan, verdict: NewRevision, locked: Mapping[JobId, Job], now: datetime) -> None:
    active = locked.get(verdict.closes.job_id) if verdict.closes else None
    if active is not None and active.live:
        assert verdict.reason is not None, "a job is closed for a reason"
        plan.put(active, jobs.close(active, verdict.reason, now), now)


def _revision(
    deployment: Deployment,
    stored: _Stored,
    submission: Submission,
    meme: Meme,
    verdict: NewRevision,
    withheld: Diagnosis | None,
) -> Job:
    job = open_revision(
        deployment,
        stored.gathered.config,
        meme.scope,
        meme.meme_id,
        verdict.revision,
        meme.picture.sha256,
        submission.policy,
        stored.now,
    )
    return jobs.withhold(job, withheld)


def _answer(submission: Submission, verdict: Verdict | None, opened: Mapping[MemeId, Job]) -> Submittal:
    match verdict:
        case None:
            return MemeNotFound("there is no such picture", meme_id=str(submission.meme_id))
        case Reuse(job):
            return Submitted(job, created=False)
        case Conflict(job):
            return _conflict(job)
        case NewRevision():
            job = opened[submission.meme_id]
            return Submitted(job, created=True) if job.reverse_image_policy is submission.policy else _conflict(job)


def _conflict(job: Job) -> GenerationPolicyConflict:
    message = f"an active job of this picture runs under reverse_image_policy '{job.reverse_image_policy}'"
    return GenerationPolicyConflict(message, job_id=str(job.job_id))

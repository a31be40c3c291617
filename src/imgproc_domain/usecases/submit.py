"""Create or reuse jobs: the one way in for upload, replacement, seeding and explicit retries."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from attrs import frozen

from imgproc_domain import job as jobs
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.errors import GenerationPolicyConflict, MemeNotFound
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.job import Job
from imgproc_domain.meme import Meme
from imgproc_domain.ports.processing import PictureVersion
from imgproc_domain.ports.unit_of_work import Transaction
from imgproc_domain.scope import Scope
from imgproc_domain.submission import (
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
from imgproc_domain.usecases.advance import Plan, extend, open_revision, write
from imgproc_domain.usecases.deployment import Deployment, decided_again
from imgproc_domain.validity import first_stale_stage


@frozen
class Submitted:
    """The job that now stands for the submission; ``created`` if it was opened for it."""

    job: Job
    created: bool


Submittal = Submitted | GenerationPolicyConflict | MemeNotFound


async def submit(deployment: Deployment, scope: Scope, submissions: Sequence[Submission]) -> Sequence[Submittal]:
    """Submit memes, each independent of the others; answers stand in the order of the submissions."""

    async def once() -> tuple[Sequence[Submittal], Plan]:
        async with deployment.uow.begin(scope) as tx:
            memes = await tx.memes.lock({s.meme_id for s in submissions})
            return await submit_locked(tx, deployment, submissions, memes)

    answers, plan = await decided_again(once)
    for event in plan.events:
        deployment.observer.note(event)
    return answers


async def submit_locked(
    tx: Transaction, deployment: Deployment, submissions: Sequence[Submission], memes: Mapping[MemeId, Meme]
) -> tuple[Sequence[Submittal], Plan]:
    """Submit memes that this transaction has locked, or just inserted, and write the result."""
    now, config, newest = await tx.together(tx.now(), deployment.decides_with(tx), tx.jobs.newest(memes.keys()))
    verdicts = await _decide(tx, config, submissions, memes, newest)
    closing = [v.closes.job_id for v in verdicts.values() if isinstance(v, NewRevision) and v.closes]
    locked = await tx.jobs.lock(closing) if closing else {}
    first = {s.meme_id: s for s in reversed(submissions)}
    withheld = await _withheld(tx, first.values(), memes, verdicts)
    plan = Plan()
    for meme_id, submission in first.items():
        verdict = verdicts.get(meme_id)
        if isinstance(verdict, NewRevision):
            diagnosis = withheld.get(meme_id)
            _open(plan, deployment, config, submission, memes[meme_id], verdict, diagnosis, locked, now)
    fresh = [plan.jobs[job_id] for job_id in plan.fresh]
    if fresh:
        await extend(tx, deployment, plan, fresh, memes, {}, now)
    await write(tx, plan)
    opened = {job.meme_id: job for job in plan.jobs.values() if job.job_id in plan.fresh}
    return [_answer(s, verdicts.get(s.meme_id), opened) for s in submissions], plan


async def _decide(
    tx: Transaction,
    config: ProcessingConfig,
    submissions: Sequence[Submission],
    memes: Mapping[MemeId, Meme],
    newest: Mapping[MemeId, Job],
) -> dict[MemeId, Verdict]:
    products = await tx.products.stamps([meme_id for meme_id in memes if meme_id in newest])
    present = [s for s in submissions if s.meme_id in memes and memes[s.meme_id].exists]
    targets = [PictureVersion(s.meme_id, memes[s.meme_id].picture.sha256, s.policy) for s in present]
    asking = [
        target
        for target, s in zip(targets, present, strict=True)
        if asks_for_tried(newest.get(s.meme_id), target.image_sha256, s.policy, s.mode)
    ]
    tried = await tx.jobs.newest_of(asking) if asking else {}
    verdicts: dict[MemeId, Verdict] = {}
    for target, s in zip(targets, present, strict=True):
        stored = products.get(s.meme_id)
        stale = first_stale_stage(target.image_sha256, config, s.policy, stored) if stored else True
        wanted = Signature(target.image_sha256, s.policy, config.fingerprint)
        job = newest.get(s.meme_id)
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


def _open(
    plan: Plan,
    deployment: Deployment,
    config: ProcessingConfig,
    submission: Submission,
    meme: Meme,
    verdict: NewRevision,
    withheld: Diagnosis | None,
    locked: Mapping[JobId, Job],
    now: datetime,
) -> None:
    active = locked.get(verdict.closes.job_id) if verdict.closes else None
    if active is not None and active.live:
        assert verdict.reason is not None, "a job is closed for a reason"
        plan.put(active, jobs.close(active, verdict.reason, now), now)
    job = open_revision(
        deployment, config, meme.scope, meme.meme_id, verdict.revision, meme.picture.sha256, submission.policy, now
    )
    plan.open(jobs.withhold(job, withheld))


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

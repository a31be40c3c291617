"""Make the call of a started execution and turn whatever comes back into an outcome."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Final

from imgproc_domain.attempt import Replay
from imgproc_domain.context import USABLE, Context, ContextStatus, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Failed, Outcome, Postponed, Retry, Succeeded, Unknown
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, Lost, NotStarted
from imgproc_domain.product import ContextProduct, Product, TextProduct, VisualProduct
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.embedding import embed_documents, why_unfit
from imgproc_domain.usecases.points import Point
from imgproc_domain.values import evolve
from imgproc_domain.vector import Vector

FAILURE: Final = {
    TaskType.VISUAL: ErrorCode.VISUAL_FAILED,
    TaskType.CONTEXT: ErrorCode.AGENT_FAILED,
    TaskType.TEXT: ErrorCode.EMBEDDING_FAILED,
    TaskType.CACHE: ErrorCode.MAINTENANCE_FAILED,
}


NO_WORDS: Final = Failed(
    Diagnosis(ErrorCode.NO_EMBEDDABLE_TEXT, "the context has no title, summary, text or keyword to embed")
)


async def perform(deployment: Deployment, execution: Execution) -> Outcome:
    """Run one execution within its hard deadline. Cancellation passes through; every other ending is an outcome."""
    task_type = execution.task.task_type
    deadline = deployment.hard_deadline(task_type)
    replay = deployment.replay(task_type)
    now = asyncio.get_running_loop().time()
    if stalled := stood_still(deployment, execution, now):
        return stalled
    try:
        async with asyncio.timeout_at(begun_at(execution, now) + deadline.total_seconds()):
            outcome = await _call(deployment, execution)
    except TimeoutError:
        code = ErrorCode.AGENT_TIMEOUT if task_type is TaskType.CONTEXT else FAILURE[task_type]
        return _unproven(execution, replay, Diagnosis(code, no_answer_within(deadline)))
    except Exception as error:  # noqa: BLE001 - an adapter's bug must end as this task's outcome, not the worker's end
        message = f"the adapter raised {type(error).__name__}"
        return _unproven(execution, replay, Diagnosis(FAILURE[task_type], message))
    outcome = await with_more(deployment, execution, outcome)
    deployment.passed(Point.CALL_ENDED)
    return outcome


def begun_at(execution: Execution, now: float) -> float:
    """Return the event loop's time from which the hard deadline of an execution's call counts."""
    return now if execution.begun is None else execution.begun


def stood_still(deployment: Deployment, execution: Execution, now: float) -> Retry | None:
    """Return how an execution ends that was stopped for too long before its call: that was certainly not made.

    Past its lease somebody else may have taken over, past the hard deadline its slot may be somebody else's.
    """
    most = min(deployment.limits.lease, deployment.hard_deadline(execution.task.task_type)).total_seconds()
    if now - begun_at(execution, now) <= most:
        return None
    return Retry(Diagnosis(ErrorCode.LEASE_LOST, "the worker stood still before it could make the call"))


async def with_more(deployment: Deployment, execution: Execution, outcome: Outcome) -> Outcome:
    """Return an outcome with the vectors of further spaces beside its own, if there are any."""
    if not deployment.more_text or not isinstance(outcome, Succeeded):
        return outcome
    return evolve(outcome, beside=await _beside(deployment, execution, outcome.product))


async def _beside(deployment: Deployment, execution: Execution, product: Product | None) -> tuple[TextProduct, ...]:
    """Embed the same words for the further spaces too, outside the call's own deadline: what fails there is missing.

    Only by models whose calls may be repeated: nobody accounts for these. A backfill completes what is missing.
    """
    if not isinstance(product, TextProduct) or execution.context is None:
        return ()
    text = execution.context.description.embeddable_text()
    models = [model for model in deployment.more_text if model.replay is Replay.SAFE]
    answers = await asyncio.gather(*(embed_documents(model, [text]) for model in models))
    return tuple(
        evolve(product, space_id=model.space.id, vector=answer)
        for model, (answer,) in zip(models, answers, strict=True)
        if isinstance(answer, Vector)
    )


def unproven(replay: Replay, diagnosis: Diagnosis) -> Outcome:
    """What a call with no proven end means: a pure local one is repeated, any other is unknown."""
    return Retry(diagnosis) if replay is Replay.SAFE else Unknown(diagnosis)


def _unproven(execution: Execution, replay: Replay, diagnosis: Diagnosis) -> Outcome:
    """As `unproven`; a look-up is made once more when the call it asks about cannot be under way any more."""
    if execution.maybe_running_until is not None:
        return Postponed(diagnosis, execution.maybe_running_until)
    return unproven(replay, diagnosis)


async def _call(deployment: Deployment, execution: Execution) -> Outcome:
    meme = execution.meme
    assert meme is not None, "a leaf task that runs has its meme"
    match execution.task.task_type:
        case TaskType.VISUAL:
            return await _visual(deployment, meme)
        case TaskType.CONTEXT:
            return await _agent(deployment, execution, meme)
        case TaskType.TEXT:
            return await _text(deployment, execution, meme)
        case TaskType.CACHE:
            raise AssertionError("maintenance tasks run in the general task worker")


async def _visual(deployment: Deployment, meme: Meme) -> Outcome:
    (answer,) = await deployment.visual.embed([picture_of(deployment, meme)])
    return seen(deployment, meme, answer)


def picture_of(deployment: Deployment, meme: Meme) -> Path:
    return deployment.blobs.path(meme.scope, meme.picture.storage_key)


def seen(deployment: Deployment, meme: Meme, answer: Vector | Declined | Lost) -> Outcome:
    """Return what the visual model's answer means for the picture it was asked about."""
    model = deployment.visual
    if not isinstance(answer, Vector):
        return _no_product(answer, model.replay)
    if unfit := why_unfit(answer, model.space):
        return Failed(unfit)
    return Succeeded(VisualProduct(meme.meme_id, meme.picture.sha256, model.space.id, answer))


async def _text(deployment: Deployment, execution: Execution, meme: Meme) -> Outcome:
    text = words_to_embed(execution.context)
    if text is None:
        return NO_WORDS
    (answer,) = await deployment.text.embed_documents([text])
    return said(deployment, execution, meme, answer)


def words_to_embed(context: Context | None) -> str | None:
    """Return what a text model is given, None if there is nothing."""
    return None if context is None or context.metadata_hash is None else context.description.embeddable_text()


def said(deployment: Deployment, execution: Execution, meme: Meme, answer: Vector | Declined | Lost) -> Outcome:
    """Return what the text model's answer means for the words it was asked about."""
    model, context = deployment.text, execution.context
    metadata_hash = context.metadata_hash if context else None
    assert metadata_hash is not None, "there were words to embed"
    if not isinstance(answer, Vector):
        return _no_product(answer, model.replay)
    if unfit := why_unfit(answer, model.space):
        return Failed(unfit)
    return Succeeded(TextProduct(meme.meme_id, meme.picture.sha256, metadata_hash, model.space.id, answer))


async def _agent(deployment: Deployment, execution: Execution, meme: Meme) -> Outcome:
    agent = deployment.agent
    call = agent_call(deployment, execution, meme)
    answer = await (agent.look_up(call) if execution.look_up else agent.describe(call))
    match answer:
        case AgentAnswer(description, status, usage):
            return _described(execution, AgentAnswer(description, status, usage), agent.fingerprint)
        case NotStarted() if execution.maybe_running_until is not None:
            # a worker that stood still may be about to make the call that the provider has not seen
            reason = Diagnosis(ErrorCode.AGENT_FAILED, "the provider has not seen the request yet")
            return Postponed(reason, execution.maybe_running_until)
        case NotStarted():
            reason = Diagnosis(ErrorCode.AGENT_FAILED, "the provider never saw the request, which is made again")
            return Retry(reason)
        case Lost(diagnosis):
            return _unproven(execution, agent.replay, diagnosis)
        case Declined():
            return _no_product(answer, agent.replay)


def agent_call(deployment: Deployment, execution: Execution, meme: Meme) -> AgentCall:
    attempt, target = execution.attempt, execution.task.target
    assert attempt is not None, "an agent execution has an attempt"
    assert target is not None, "an agent execution has a target"
    return AgentCall(
        attempt_id=attempt.attempt_id,
        request_id=attempt.request_id,
        session_id=attempt.session_id,
        picture=deployment.blobs.path(meme.scope, meme.picture.storage_key),
        reverse_image_policy=target.reverse_image_policy,
    )


def _described(execution: Execution, answer: AgentAnswer, fingerprint: str) -> Outcome:
    if answer.status not in USABLE:
        message = f"an agent may report the status {ContextStatus.PARTIAL} or {ContextStatus.READY}"
        return Failed(Diagnosis(ErrorCode.AGENT_OUTPUT_INVALID, message))
    # the target's picture, not the meme's: a call that is looked up may have been made before a replacement (I5)
    target = execution.task.target
    assert target is not None, "an agent execution has a target"
    provenance = Provenance(
        origin=Origin.AGENT,
        image_sha256=target.image_sha256,
        agent_fingerprint=fingerprint,
        reverse_image_policy=target.reverse_image_policy,
        attempt_id=execution.attempt.attempt_id if execution.attempt else None,
        usage=answer.usage,
    )
    product = ContextProduct(target.meme_id, target.image_sha256, answer.description, answer.status, provenance)
    return Succeeded(product)


def _no_product(answer: Declined | Lost, replay: Replay) -> Outcome:
    match answer:
        case Declined(diagnosis, True, retry_after):
            return Retry(diagnosis, retry_after)
        case Declined(diagnosis):
            return Failed(diagnosis)
        case Lost(diagnosis):
            return unproven(replay, diagnosis)


def no_answer_within(deadline: timedelta) -> str:
    return f"no answer within {deadline.total_seconds():g} s"

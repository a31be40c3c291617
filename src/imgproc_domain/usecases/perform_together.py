"""One call of a local model for many executions, each with an outcome of its own."""

import asyncio
from collections.abc import Sequence

from imgproc_domain.diagnosis import Diagnosis
from imgproc_domain.meme import Meme
from imgproc_domain.outcome import Outcome
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.perform import (
    FAILURE,
    NO_WORDS,
    begun_at,
    no_answer_within,
    perform,
    picture_of,
    said,
    seen,
    stood_still,
    unproven,
    with_more,
    words_to_embed,
)
from imgproc_domain.usecases.points import Point
from imgproc_domain.vector import Vector

_Answers = Sequence[Vector | Declined | Lost]


def may_share(execution: Execution) -> bool:
    """Whether a call may be made for this execution and others: whoever failed or was lost before is called for alone.

    So an input that ends its calls, or the worker, takes its neighbours with it once.
    """
    task = execution.task
    return execution.outcome is None and task.failures == 0 and task.lease_losses == 0


async def perform_together(deployment: Deployment, executions: Sequence[Execution]) -> Sequence[Outcome]:
    """Run executions of one type, of the visual or the text model, by one call; outcomes stand in their order.

    As `perform` does: cancellation passes through, every other ending is an outcome, and the call has to be over by
    the first of the hard deadlines. If it raises, each is tried again, alone: an attempt makes one call (I6).
    """
    if len(executions) == 1:
        return [await perform(deployment, executions[0])]
    now = asyncio.get_running_loop().time()
    ended: dict[int, Outcome] = {}
    asking: list[int] = []
    for place, execution in enumerate(executions):
        if (outcome := _without_call(deployment, execution, now)) is not None:
            ended[place] = outcome
        else:
            asking.append(place)
    if asking:
        outcomes = await _asked(deployment, [executions[place] for place in asking], now)
        ended.update(zip(asking, outcomes, strict=True))
    return [ended[place] for place in range(len(executions))]


def _without_call(deployment: Deployment, execution: Execution, now: float) -> Outcome | None:
    if stalled := stood_still(deployment, execution, now):
        return stalled
    wordless = execution.task.task_type is TaskType.TEXT and words_to_embed(execution.context) is None
    return NO_WORDS if wordless else None


async def _asked(deployment: Deployment, executions: Sequence[Execution], now: float) -> Sequence[Outcome]:
    task_type = executions[0].task.task_type
    deadline = deployment.hard_deadline(task_type)
    until = min(begun_at(execution, now) for execution in executions) + deadline.total_seconds()
    try:
        async with asyncio.timeout_at(until):
            outcomes = await _call(deployment, task_type, executions)
    except TimeoutError:
        return _all(deployment, executions, no_answer_within(deadline))
    except Exception as error:  # noqa: BLE001 - an adapter's bug must end as these tasks' outcomes, not the worker's end
        return _all(deployment, executions, f"the adapter raised {type(error).__name__}")
    if deployment.more_text:
        pairs = zip(executions, outcomes, strict=True)
        outcomes = await asyncio.gather(*(with_more(deployment, execution, outcome) for execution, outcome in pairs))
    deployment.passed(Point.CALL_ENDED)
    return outcomes


def _all(deployment: Deployment, executions: Sequence[Execution], message: str) -> Sequence[Outcome]:
    task_type = executions[0].task.task_type
    return [unproven(deployment.replay(task_type), Diagnosis(FAILURE[task_type], message))] * len(executions)


async def _call(deployment: Deployment, task_type: TaskType, executions: Sequence[Execution]) -> list[Outcome]:
    memes = [_meme_of(execution) for execution in executions]
    if task_type is TaskType.VISUAL:
        pictures = [picture_of(deployment, meme) for meme in memes]
        answers: _Answers = await deployment.visual.embed(pictures)
        return [seen(deployment, meme, answer) for meme, answer in zip(memes, answers, strict=True)]
    texts = [text for execution in executions if (text := words_to_embed(execution.context)) is not None]
    answers = await deployment.text.embed_documents(texts)
    return [
        said(deployment, execution, meme, answer)
        for execution, meme, answer in zip(executions, memes, answers, strict=True)
    ]


def _meme_of(execution: Execution) -> Meme:
    assert execution.meme is not None, "a leaf task that runs has its meme"
    return execution.meme

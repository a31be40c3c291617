"""Ask a model for the vector of a question that somebody waits for: within a time, and so many at once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from attrs import define, field

from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.errors import ModelDeclined, ModelNotConfigured, ModelTimeout, ModelUnavailable
from imgproc_domain.ports.models import Declined, Lost, TextModel, VisualModel
from imgproc_domain.usecases.embedding import why_unfit
from imgproc_domain.vector import Vector

AT_ONCE: Final = 16
_MISSING: Final = frozenset({ErrorCode.VISUAL_MODEL_NOT_CONFIGURED, ErrorCode.EMBEDDING_NOT_CONFIGURED})

_Answer = Vector | Declined | Lost


@define(eq=False)
class Questions:
    """The calls that questions have under way, at most ``at_once`` a model.

    A call that is not done when its question gives up is not cancelled, which would cost a local model its process: it
    ends by itself, at the latest at its model's hard deadline, and nobody hears of it. It keeps its place until then,
    so that calls never pile up before a model that hangs.
    """

    at_once: int = AT_ONCE
    _places: dict[str, asyncio.Semaphore] = field(factory=dict, init=False)
    _calls: set[asyncio.Task[_Answer]] = field(factory=set, init=False)

    async def ask(
        self, model: VisualModel | TextModel, call: Callable[[], Awaitable[_Answer]], within: timedelta
    ) -> Vector:
        """Return what one call of a model answers: a vector of its space. ``within`` covers waiting for a place, too.

        What the call raises of its own is raised here.

        Raises:
            ModelNotConfigured: the model is missing, or gives vectors that are not of its space.
            ModelDeclined: it has no vector for this, and would have none the next time.
            ModelUnavailable: it failed this time.
            ModelTimeout: it has not answered in time.
        """
        places = self._places.setdefault(model.space.id, asyncio.Semaphore(self.at_once))
        seconds = within.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                await places.acquire()
                asked = self._begin(places, model, call)
                await asyncio.wait([asked])
        except TimeoutError as error:
            raise ModelTimeout(f"the model has not answered within {seconds:g} s", space_id=model.space.id) from error
        if asked.cancelled():
            raise ModelUnavailable("the call of the model was ended before it was answered")
        return _vector(asked.result(), model.space)

    async def close(self) -> None:
        """End the calls that are under way. Idempotent."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _begin(
        self, places: asyncio.Semaphore, model: VisualModel | TextModel, call: Callable[[], Awaitable[_Answer]]
    ) -> asyncio.Task[_Answer]:
        asked = asyncio.create_task(_called(model.hard_deadline, call))
        self._calls.add(asked)

        def ended(task: asyncio.Task[_Answer]) -> None:
            places.release()
            self._calls.discard(task)
            if not task.cancelled():
                # the question may have given up: without somebody who looks, the loop would log it as lost
                task.exception()

        asked.add_done_callback(ended)
        return asked


async def _called(deadline: timedelta, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
    seconds = deadline.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await call()
    except TimeoutError as error:
        raise ModelTimeout(f"the model has not answered within {seconds:g} s, its hard deadline") from error


def _vector(answer: _Answer, space: VectorSpace) -> Vector:
    match answer:
        case Vector():
            if unfit := why_unfit(answer, space):
                raise ModelNotConfigured(unfit.message, code=unfit.code)
            return answer
        case Declined(diagnosis) if diagnosis.code in _MISSING:
            raise ModelNotConfigured(diagnosis.message, code=diagnosis.code)
        case Declined(diagnosis, True, retry_after):
            raise ModelUnavailable(diagnosis.message, retry_after, code=diagnosis.code)
        case Declined(diagnosis):
            raise ModelDeclined(diagnosis.message, code=diagnosis.code)
        case Lost(diagnosis):
            raise ModelUnavailable(diagnosis.message, code=diagnosis.code)

"""Calls of models that people wait for: bounded in time and in number, and every refusal under its own name."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from imgproc_adapters.testing.factories import vector
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import QUERY, Embedded, ScriptedTextModel
from imgproc_adapters.testing.script import Held
from imgproc_domain.config import VectorSpace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import ModelDeclined, ModelError, ModelNotConfigured, ModelTimeout, ModelUnavailable
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.usecases.asking import Questions
from imgproc_domain.vector import Vector

LONG = timedelta(seconds=30)
SHORT = timedelta(milliseconds=20)
SPACE = VectorSpace("asked", 8)
ANSWER = vector(1)


def model(deadline: timedelta = LONG, space: VectorSpace = SPACE) -> ScriptedTextModel:
    return ScriptedTextModel(space=space, hard_deadline=deadline)


def held(*models: ScriptedTextModel) -> list[Held[Embedded]]:
    """Let the next call of each model wait."""
    waiting: list[Held[Embedded]] = [Held(ANSWER) for _ in models]
    for each, answer in zip(models, waiting, strict=True):
        each.script.then(answer)
    return waiting


def call(asked: ScriptedTextModel) -> Callable[[], Awaitable[Embedded]]:
    return lambda: asked.embed_query("what")


async def ask(questions: Questions, asked: ScriptedTextModel, within: timedelta = LONG) -> Vector:
    return await questions.ask(asked, call(asked), within)


def calls(asked: ScriptedTextModel) -> int:
    return len(started(asked.ledger, QUERY))


def phases(asked: ScriptedTextModel) -> list[str]:
    return [entry.phase for entry in asked.ledger.calls()]


async def test_an_answer_is_a_vector_of_the_models_space() -> None:
    asked = model()
    asked.script.then(ANSWER)
    assert await ask(Questions(), asked) == ANSWER


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (Declined(Diagnosis(ErrorCode.VISUAL_MODEL_NOT_CONFIGURED, "?"), transient=False), ModelNotConfigured, None),
        (Declined(Diagnosis(ErrorCode.EMBEDDING_NOT_CONFIGURED, "?"), transient=True), ModelNotConfigured, None),
        (Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "?"), transient=False), ModelDeclined, None),
        (Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "?"), transient=True), ModelUnavailable, None),
        (Lost(Diagnosis(ErrorCode.EMBEDDING_FAILED, "?")), ModelUnavailable, None),
        (vector(1, dimension=4), ModelNotConfigured, ErrorCode.EMBEDDING_DIMENSION_MISMATCH),
        (Vector(bytes(32)), ModelNotConfigured, ErrorCode.EMBEDDING_INVALID),
    ],
    ids=str,
)
async def test_what_is_no_vector_has_the_name_of_its_reason(
    answer: Embedded, error: type[ModelError], code: ErrorCode | None
) -> None:
    asked = model()
    asked.script.then(answer)
    with pytest.raises(ModelError) as refused:
        await ask(Questions(), asked)
    assert type(refused.value) is error
    assert refused.value.details["code"] == (code or answer.diagnosis.code)  # type: ignore[union-attr]  # no vector


async def test_when_a_model_may_be_asked_again_is_passed_on() -> None:
    asked, later = model(), timedelta(seconds=7)
    asked.script.then(Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "too many"), transient=True, retry_after=later))
    with pytest.raises(ModelUnavailable) as refused:
        await ask(Questions(), asked)
    assert refused.value.retry_after == later


async def test_nobody_waits_for_longer_than_a_question_may_and_the_call_is_not_cancelled() -> None:
    asked, questions = model(), Questions()
    (answer,) = held(asked)
    with pytest.raises(ModelTimeout):
        await ask(questions, asked, SHORT)
    assert phases(asked) == ["started"]
    answer.release()
    await questions.close()


async def test_calls_do_not_pile_up_before_a_model_that_hangs() -> None:
    asked, questions = model(), Questions(at_once=2)
    first, _ = held(asked, asked)
    for _ in range(5):
        with pytest.raises(ModelTimeout):
            await ask(questions, asked, SHORT)
    assert calls(asked) == 2
    first.release()
    asked.script.then(ANSWER)
    assert await ask(questions, asked) == ANSWER, "who comes when a place is free again has it"
    await questions.close()


async def test_who_finds_no_place_waits_for_one() -> None:
    asked, questions = model(), Questions(at_once=1)
    (answer,) = held(asked)
    asked.script.always(lambda _: ANSWER)
    both = [asyncio.create_task(ask(questions, asked)) for _ in range(2)]
    await answer.started.wait()
    answer.release()
    assert await asyncio.gather(*both) == [ANSWER, ANSWER]


async def test_each_model_has_places_of_its_own() -> None:
    hangs, other, questions = model(), model(space=VectorSpace("other", 8)), Questions(at_once=1)
    held(hangs)
    with pytest.raises(ModelTimeout):
        await ask(questions, hangs, SHORT)
    other.script.then(ANSWER)
    assert await ask(questions, other) == ANSWER
    await questions.close()


async def test_a_call_ends_at_its_hard_deadline_and_gives_its_place_back() -> None:
    asked, questions = model(SHORT), Questions(at_once=1)
    held(asked)
    with pytest.raises(ModelTimeout, match="hard deadline"):
        await ask(questions, asked)
    assert phases(asked) == ["started", "ended"]
    asked.script.then(ANSWER)
    assert await ask(questions, asked) == ANSWER


async def test_who_goes_away_takes_neither_the_call_nor_a_place_along() -> None:
    asked, questions = model(), Questions(at_once=1)
    (answer,) = held(asked)
    asked.script.always(lambda _: ANSWER)
    gone, waiting = (asyncio.create_task(ask(questions, asked)) for _ in range(2))
    await answer.started.wait()
    gone.cancel()
    waiting.cancel()
    await asyncio.gather(gone, waiting, return_exceptions=True)
    assert phases(asked) == ["started"]
    answer.release()
    assert await ask(questions, asked) == ANSWER


async def test_closing_ends_what_is_under_way() -> None:
    asked, questions = model(), Questions()
    (answer,) = held(asked)
    waiting = asyncio.create_task(ask(questions, asked))
    await answer.started.wait()
    await questions.close()
    assert phases(asked) == ["started", "ended"]
    with pytest.raises(ModelUnavailable):
        await waiting
    await questions.close()


async def test_what_a_call_raises_is_raised_where_it_is_waited_for_and_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, questions = model(), Questions(at_once=1)
    asked.script.then(LookupError("a bug of the adapter"))
    with pytest.raises(LookupError):
        await ask(questions, asked)
    late: Held[Embedded] = Held(LookupError("a bug that nobody waits for"))
    asked.script.then(late)
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        with pytest.raises(ModelTimeout):
            await ask(questions, asked, SHORT)
        late.release()
        asked.script.then(ANSWER)
        assert await ask(questions, asked) == ANSWER, "the late call is over"
    assert caplog.records == []

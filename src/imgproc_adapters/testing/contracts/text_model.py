"""Texts to vectors."""

from datetime import timedelta

import pytest

from imgproc_domain.ports.models import TextModel
from imgproc_domain.vector import Vector


async def _one(model: TextModel, text: str) -> Vector:
    (answer,) = await model.embed_documents([text])
    assert isinstance(answer, Vector)
    return answer


class TextModelContract:
    """Needs the fixture ``text_model``."""

    pytestmark = pytest.mark.asyncio

    async def test_documents_and_queries_get_vectors_of_the_space(self, text_model: TextModel) -> None:
        answers = [*await text_model.embed_documents(["a cat", "一只猫"]), await text_model.embed_query("猫")]
        for answer in answers:
            assert isinstance(answer, Vector)
            assert answer.dimension == text_model.space.dimension

    async def test_answers_come_in_the_order_of_the_texts(self, text_model: TextModel) -> None:
        texts = ["a cat on a sofa", "quarterly tax report", "一只惊讶的猫"]
        together = await text_model.embed_documents(texts)
        for text, answer in zip(texts, together, strict=True):
            assert isinstance(answer, Vector)
            assert answer.cosine_distance(await _one(text_model, text)) == pytest.approx(0.0, abs=1e-2)

    async def test_a_query_is_nearer_to_its_document_than_to_another(self, text_model: TextModel) -> None:
        query = await text_model.embed_query("a cat on a sofa")
        assert isinstance(query, Vector)
        near = await _one(text_model, "a cat sits on a sofa")
        far = await _one(text_model, "quarterly tax report of the company")
        assert query.cosine_distance(near) < query.cosine_distance(far)

    async def test_an_over_long_text_is_cut_and_never_refused(self, text_model: TextModel) -> None:
        await _one(text_model, "a cat on a sofa. " * 5_000)

    async def test_no_texts_are_no_answers(self, text_model: TextModel) -> None:
        assert list(await text_model.embed_documents([])) == []

    async def test_a_call_takes_a_text_at_least(self, text_model: TextModel) -> None:
        assert text_model.batch >= 1

    async def test_a_call_ends_some_time(self, text_model: TextModel) -> None:
        assert text_model.hard_deadline > timedelta(0)

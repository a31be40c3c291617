"""Pictures to vectors."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from imgproc_domain.ports.models import Declined, VisualModel
from imgproc_domain.vector import Vector


class VisualModelContract:
    """Needs ``visual_model``, ``pictures`` (at least two good files) and ``bad_picture`` (a file that is none)."""

    pytestmark = pytest.mark.asyncio

    async def test_every_picture_gets_a_vector_of_the_space(
        self, visual_model: VisualModel, pictures: Sequence[Path]
    ) -> None:
        answers = await visual_model.embed(pictures)
        assert len(answers) == len(pictures)
        for answer in answers:
            assert isinstance(answer, Vector)
            assert answer.dimension == visual_model.space.dimension
            assert answer.cosine_distance(answer) == pytest.approx(0.0, abs=1e-5)

    async def test_answers_come_in_the_order_of_the_pictures(
        self, visual_model: VisualModel, pictures: Sequence[Path]
    ) -> None:
        forward = await visual_model.embed(pictures)
        backward = await visual_model.embed(pictures[::-1])
        for one, other in zip(forward, backward[::-1], strict=True):
            assert isinstance(one, Vector)
            assert isinstance(other, Vector)
            assert one.cosine_distance(other) == pytest.approx(0.0, abs=1e-3)

    async def test_a_bad_picture_is_declined_for_good_and_harms_no_neighbour(
        self, visual_model: VisualModel, pictures: Sequence[Path], bad_picture: Path
    ) -> None:
        before, bad, after = await visual_model.embed([pictures[0], bad_picture, pictures[1]])
        assert isinstance(before, Vector)
        assert isinstance(bad, Declined)
        assert not bad.transient
        assert isinstance(after, Vector)

    async def test_no_pictures_are_no_answers(self, visual_model: VisualModel) -> None:
        assert list(await visual_model.embed([])) == []

    async def test_a_call_takes_a_picture_at_least(self, visual_model: VisualModel) -> None:
        assert visual_model.batch >= 1

    async def test_a_call_ends_some_time(self, visual_model: VisualModel) -> None:
        assert visual_model.hard_deadline > timedelta(0)

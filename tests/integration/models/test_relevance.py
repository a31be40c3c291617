"""Questions about the samples find their picture, in Chinese and in English, with the local models."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benchmarks.relevance import Found, ask_about_samples, figures, misses

from imgproc_app.lifecycle import Parts, open_runtime
from imgproc_app.settings import Settings
from imgproc_domain.search import Ranking

ENOUGH = 0.9


@pytest.fixture
async def answers(database: str, tmp_path: Path) -> AsyncIterator[dict[str, list[Found]]]:
    async with open_runtime(Settings(data_dir=tmp_path, dsn=database), Parts(policy=None)) as runtime:
        yield {ranking: list(found) for ranking, found in (await ask_about_samples(runtime)).items()}


async def test_nine_of_ten_questions_find_their_picture_among_the_first_three(
    answers: dict[str, list[Found]],
) -> None:
    hybrid = figures(answers[Ranking.HYBRID])
    for kind in ("zh", "en", "mixed", "caption", "two words"):
        assert hybrid[kind]["hit_at_3"] >= ENOUGH, (kind, misses(answers[Ranking.HYBRID]))
    assert hybrid["caption"]["hit_at_1"] == 1.0, "a part of a caption, word for word, is lost to no other picture"
    assert hybrid["all"]["mrr"] >= figures(answers[Ranking.SEMANTIC])["all"]["mrr"], "words do no harm"

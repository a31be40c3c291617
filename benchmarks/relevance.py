"""Is the right picture among the first? The samples, described by the local agent, asked in Chinese and English.

The questions were written from the pictures and their captions before any of them was asked, and are not adjusted to
what a model finds; those of two words were added later, when it was asked whether both should be demanded. Every
question has one right answer. The table has a row for each model, ranking and kind of question: Chinese, English, both
in one question, parts of captions word for word, and two English words of which often only one is known.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import cattrs
from attrs import frozen
from rich.table import Table

from benchmarks.models import bytes_of, sample_pictures
from benchmarks.plan import Plan
from benchmarks.server import Database, fresh_database
from benchmarks.steps import Measured, Steps
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.testing.waiting import until
from imgproc_adapters.text.encoders import TEXT_MODELS
from imgproc_app.lifecycle import Parts, Runtime, open_runtime, working
from imgproc_app.settings import Settings
from imgproc_domain.job import JobStatus
from imgproc_domain.search import Query, Ranking
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_images, job_counts

QUESTIONS: Final = Path(__file__).with_name("relevance.json")
HEADS: Final = ["model", "ranking", "questions", "number", "hit@1", "hit@3", "MRR"]
_WORDS: Final = 3
_FIRST: Final = 10
_PATIENCE: Final = 600.0


@frozen
class Asked:
    """A question, what kind it is, and the file that answers it."""

    kind: str
    file: str
    query: str


@frozen
class Found:
    """The place of the right answer, from 1; None if it is not among the first ten."""

    asked: Asked
    place: int | None


def read_questions() -> list[Asked]:
    return cattrs.structure(json.loads(QUESTIONS.read_text("utf-8")), list[Asked])


def measure(server: EmbeddedPostgres, _: Plan) -> Measured:
    steps = Steps("relevance")
    values: dict[str, object] = {}
    details: dict[str, object] = {}
    for name in TEXT_MODELS:
        with steps.step(f"{len(read_questions())} questions about the samples, asked with {name}"):
            with fresh_database(server, f"relevance_{name}") as database:
                answers = asyncio.run(_of_model(database, name))
            values[name] = {ranking: figures(found) for ranking, found in answers.items()}
            details[name] = {ranking: misses(found) for ranking, found in answers.items()}
    return Measured(values, details, steps.errors)


async def _of_model(database: Database, name: str) -> Mapping[str, Sequence[Found]]:
    with TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), dsn=database.dsn, text_model=name)
        async with open_runtime(settings, Parts(policy=None)) as runtime:
            return await ask_about_samples(runtime)


async def ask_about_samples(runtime: Runtime) -> Mapping[str, Sequence[Found]]:
    """Take the samples in, process them, and ask everything by either ranking."""
    pictures = sample_pictures()
    for path in pictures:
        await upload(runtime.deployment, runtime.scope, path.name, bytes_of(path), ReverseImagePolicy.FORBID)

    async def done() -> bool | None:
        counts = await job_counts(runtime.deployment, runtime.scope)
        return counts.get(JobStatus.SUCCEEDED, 0) == len(pictures) or None

    async with working(runtime):
        await until(done, _PATIENCE)
    return {
        ranking.value: [await _place(runtime, question, ranking) for question in read_questions()]
        for ranking in Ranking
    }


async def _place(runtime: Runtime, asked: Asked, ranking: Ranking) -> Found:
    answer = await search(runtime.deployment, runtime.scope, Query(asked.query, _FIRST, ranking=ranking))
    pictures = await get_images(runtime.deployment, runtime.scope, [hit.meme_id for hit in answer.hits])
    names = [pictures[hit.meme_id].meme.filename for hit in answer.hits]
    return Found(asked, names.index(asked.file) + 1 if asked.file in names else None)


def figures(found: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Return, a kind of question and for all, how many there are, hit@1, hit@3 and the mean reciprocal rank."""
    kinds = [*dict.fromkeys(each.asked.kind for each in found), "all"]
    return {kind: _of_kind([each for each in found if kind in (each.asked.kind, "all")]) for kind in kinds}


def _of_kind(found: Sequence[Found]) -> dict[str, float]:
    places = [each.place for each in found]
    return {
        "questions": len(places),
        "hit_at_1": _share(place == 1 for place in places),
        "hit_at_3": _share(place is not None and place <= 3 for place in places),
        "mrr": sum(1 / place for place in places if place) / len(places),
    }


def _share(hits: Iterable[bool]) -> float:
    marks = list(hits)
    return sum(marks) / len(marks)


def misses(found: Sequence[Found]) -> list[dict[str, object]]:
    """Return the questions whose answer is not among the first three."""
    return [
        {"query": each.asked.query, "file": each.asked.file, "place": each.place}
        for each in found
        if each.place is None or each.place > 3
    ]


def cells(values: Mapping[str, Any]) -> list[list[str]]:
    """Return a line for every model, ranking and kind of question, under `HEADS`."""
    return [
        [
            model,
            ranking,
            kind,
            str(found["questions"]),
            *(f"{found[key]:.2f}" for key in ("hit_at_1", "hit_at_3", "mrr")),
        ]
        for model, rankings in values.items()
        for ranking, kinds in rankings.items()
        for kind, found in kinds.items()
    ]


def table(values: Mapping[str, Any]) -> Table:
    shown = Table(title="the right picture among the first, asked about the samples", title_justify="left")
    for place, head in enumerate(HEADS):
        shown.add_column(head, justify="left" if place < _WORDS else "right")
    for line in cells(values):
        shown.add_row(*line)
    return shown

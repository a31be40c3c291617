"""Ask a library questions and show the answers side by side."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen
from rich.table import Table
from rich.text import Text

from imgproc_app.cli.output import one_line
from imgproc_app.cli.samples import Question
from imgproc_app.lifecycle import Runtime
from imgproc_domain.search import parse_query
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_images, list_images

_FIRST: Final = 3
_EXAMPLES: Final = 3
_ANSWERS: Final = ("first", "second", "third")
_ANSWER: Final = 20
_LEAST_QUERY: Final = 16
_WIDE: Final = 100
_LEAST_WORDS: Final = 2
_CHINESE: Final = re.compile("[\u3400-\u9fff]")
_LEAST_CHINESE: Final = 4


@frozen
class Answered:
    """The first three file names with their scores, best first."""

    question: Question
    answers: tuple[tuple[str, float], ...]

    @property
    def hit(self) -> bool:
        return self.question.file in [name for name, _ in self.answers]


async def ask(runtime: Runtime, question: Question) -> Answered:
    """Raises `CacheNotReady` as long as nothing can be found."""
    answer = await search(runtime.deployment, runtime.scope, parse_query(question.query, _FIRST))
    pictures = await get_images(runtime.deployment, runtime.scope, [hit.meme_id for hit in answer.hits])
    found = ((pictures[hit.meme_id].meme.filename, hit.score) for hit in answer.hits if hit.meme_id in pictures)
    return Answered(question, tuple(found))


async def examples(runtime: Runtime) -> list[Question]:
    """Return questions made from the titles of some pictures, for a library of which nothing else is known."""
    page = await list_images(runtime.deployment, runtime.scope, None, 50)
    titles = (view.products.context.description.title for view in page.images if view.products.context)
    distinct = list(dict.fromkeys(title for title in titles if title and says_something(title)))
    return [Question(title, "", None) for title in distinct[:_EXAMPLES]]


def says_something(title: str) -> bool:
    """Return whether a title is long enough to be a question: two words, or four Chinese characters."""
    return len(title.split()) >= _LEAST_WORDS or len(_CHINESE.findall(title)) >= _LEAST_CHINESE


def answers_table(title: str, answered: Sequence[Answered], width: int) -> Table:
    """Return a table of one line a query for a terminal of ``width`` columns; a narrow one has no room for thirds."""
    titles = _ANSWERS if width >= _WIDE else _ANSWERS[:-1]
    frame = 3 * (len(titles) + 1) + 1
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    # names of files are of no use when they are cut: the query is
    room = max(_LEAST_QUERY, width - frame - _ANSWER * len(titles))
    table.add_column("query", no_wrap=True, overflow="ellipsis", max_width=room)
    for column in titles:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for item in answered:
        cells = [f"{score:.2f} {Path(name).stem}" for name, score in item.answers[: len(titles)]]
        cells += [""] * (len(titles) - len(cells))
        table.add_row(_marked(item), *cells)
    return table


def _marked(item: Answered) -> Text:
    query = one_line(item.question.query)
    if item.question.file is None:
        return Text(query)
    return Text.assemble(("✔ ", "green") if item.hit else ("✘ ", "red"), query)

"""``imgproc search``: find pictures by what they mean, and by their words."""

import asyncio
from typing import Final

import click

from imgproc_app.cli.opening import opened
from imgproc_app.cli.output import one_line, table_of
from imgproc_app.cli.program import demo_hint
from imgproc_app.cli.session import Session, run
from imgproc_app.lifecycle import Runtime
from imgproc_domain.errors import CacheNotReady
from imgproc_domain.search import MAX_OFFSET, MAX_RESULTS, Answer, Query, Ranking, parse_query
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_images

_SOON: Final = 1.0


@click.command("search")
@click.argument("text", nargs=-1, required=True)
@click.option("-n", "--number", type=click.IntRange(1, MAX_RESULTS), default=10, show_default=True)
@click.option("--skip", type=click.IntRange(0, MAX_OFFSET), default=0, help="Begin behind so many results.")
@click.option(
    "--mode",
    type=click.Choice([ranking.value for ranking in Ranking]),
    default=Ranking.HYBRID.value,
    show_default=True,
    help="Rank by meaning alone, or by meaning and words.",
)
@click.option("--min-score", type=click.FloatRange(-1.0, 1.0), help="Leave out pictures that score less (-1 to 1).")
@click.pass_obj
def command(session: Session, text: tuple[str, ...], number: int, skip: int, mode: str, min_score: float | None) -> int:
    """Find pictures by describing what they mean, or by their words, in Chinese or English."""
    query = parse_query(" ".join(text), number, min_score, Ranking(mode), skip)
    return run(lambda: _search(session, query))


async def _search(session: Session, query: Query) -> int:
    async with opened(session.settings()) as runtime:
        answer = await _answered(session, runtime, query)
        pictures = await get_images(runtime.deployment, runtime.scope, [hit.meme_id for hit in answer.hits])
    # a picture that was deleted since the search is no result any more
    found = [(hit, pictures[hit.meme_id]) for hit in answer.hits if hit.meme_id in pictures]
    results = [
        {
            "score": round(hit.score, 4),
            "matched": list(hit.matched),
            "filename": view.meme.filename,
            "title": view.products.context.description.title if view.products.context else "",
            "meme_id": hit.meme_id,
        }
        for hit, view in found
    ]
    coverage = answer.coverage
    if session.output.as_json:
        session.output.document(
            {
                "query": query.text,
                "source": answer.source.value,
                "epoch": answer.epoch,
                "mode": answer.ranking.value,
                "results": results,
                "next_offset": answer.next_offset,
                "coverage": {"searchable": coverage.searchable, "total": coverage.total},
            }
        )
        return 0
    rows = [
        (
            f"{hit.score:.3f}",
            view.meme.filename,
            one_line(str(result["title"]), 80),
            ", ".join(hit.matched).replace("_", " "),
            str(hit.meme_id),
        )
        for (hit, view), result in zip(found, results, strict=True)
    ]
    if rows:
        columns = ("score", "file", "title", "matched", "meme id")
        session.output.table(table_of("", columns, rows, right=["score"], whole=["meme id"]))
    else:
        session.output.say("no more pictures" if query.offset else "nothing scores high enough")
    if answer.ranking is not query.ranking:
        session.output.note("ranked by meaning alone: this library is read from a legacy index, which has no words")
    if answer.next_offset is not None:
        session.output.note(f"there are more: --skip {answer.next_offset}")
    if coverage.searchable < coverage.total:
        session.output.note(f"{coverage.searchable} of {coverage.total} pictures can be found so far")
    return 0


async def _answered(session: Session, runtime: Runtime, query: Query) -> Answer:
    """Search, and tell a person at a terminal what a wait is for."""

    def tell() -> None:
        if session.output.live:
            session.output.note("loading the text model ...")

    telling = asyncio.get_running_loop().call_later(_SOON, tell)
    try:
        return await search(runtime.deployment, runtime.scope, query)
    except CacheNotReady as error:
        if (hint := demo_hint(runtime.settings)) is not None:
            error.add_note(hint)
        raise
    finally:
        telling.cancel()

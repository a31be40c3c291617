"""``imgproc similar``: find pictures that look like a file, or like one of the library."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import click

from imgproc_app.cli.intake import chunks_of
from imgproc_app.cli.opening import opened
from imgproc_app.cli.output import one_line, table_of
from imgproc_app.cli.session import Session, run
from imgproc_app.lifecycle import Runtime
from imgproc_domain.ids import MemeId
from imgproc_domain.search import MAX_RESULTS
from imgproc_domain.similar import Match, parse_wanted
from imgproc_domain.usecases.similar import similar_to, similar_to_picture
from imgproc_domain.usecases.views import get_images


class _Looks(click.ParamType[Path | MemeId]):
    """A file that is there, or else an id."""

    name = "file_or_meme_id"

    def convert(
        self, value: str | Path | MemeId, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | MemeId:
        if not isinstance(value, str):
            return value
        path = Path(value).expanduser()
        if path.is_file():
            return path
        try:
            return MemeId(UUID(value))
        except ValueError:
            self.fail(f"{value!r} is neither a file nor the id of a picture", param, ctx)


@click.command("similar")
@click.argument("looks", metavar="FILE_OR_MEME_ID", type=_Looks())
@click.option("-n", "--number", type=click.IntRange(1, MAX_RESULTS), default=10, show_default=True)
@click.option("--min-score", type=click.FloatRange(-1.0, 1.0), help="Leave out pictures that score less (-1 to 1).")
@click.pass_obj
def command(session: Session, looks: Path | MemeId, number: int, min_score: float | None) -> int:
    """Find pictures that look like a file, which is not imported, or like a picture of the library.

    'exact' are the same bytes, 'near' is what by all appearances is an edited copy. Two pictures that differ in their
    words alone look alike.
    """
    parse_wanted(number, min_score)
    return run(lambda: _similar(session, looks, number, min_score))


async def _similar(session: Session, looks: Path | MemeId, number: int, min_score: float | None) -> int:
    async with opened(session.settings()) as runtime:
        found = await _matches(runtime, looks, number, min_score)
        pictures = await get_images(runtime.deployment, runtime.scope, [match.meme_id for match in found])
    # a picture that was deleted since it was found is no result any more
    results = [
        {
            "score": round(match.score, 4),
            "kind": match.kind.value,
            "filename": view.meme.filename,
            "title": view.products.context.description.title if view.products.context else "",
            "meme_id": match.meme_id,
        }
        for match in found
        if (view := pictures.get(match.meme_id)) is not None
    ]
    if session.output.as_json:
        session.output.document({"like": str(looks), "results": results})
    elif results:
        rows = [
            (f"{r['score']:.3f}", str(r["kind"]), str(r["filename"]), one_line(str(r["title"]), 80), str(r["meme_id"]))
            for r in results
        ]
        columns = ("score", "kind", "file", "title", "meme id")
        session.output.table(table_of("", columns, rows, right=["score"], whole=["meme id"]))
    else:
        session.output.say("nothing looks like it" if min_score is None else "nothing looks enough like it")
    return 0


async def _matches(runtime: Runtime, looks: Path | MemeId, number: int, min_score: float | None) -> Sequence[Match]:
    if isinstance(looks, Path):
        return await similar_to_picture(runtime.deployment, runtime.scope, chunks_of(looks), number, min_score)
    return await similar_to(runtime.deployment, runtime.scope, looks, number, min_score)

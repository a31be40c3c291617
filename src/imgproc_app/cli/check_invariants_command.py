"""``imgproc check-invariants``: are the rows what the domain promises?"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import click

from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.invariants import Report, Result, SchemaMissing, check
from imgproc_app.cli.options import scopes_option
from imgproc_app.cli.output import one_line, table_of
from imgproc_app.cli.session import Session, run
from imgproc_app.lifecycle import check_dsn
from imgproc_app.settings import Settings
from imgproc_domain.scope import parse_scope

_LONGEST = 400


@click.command("check-invariants")
@scopes_option
@click.option("--quiescent", is_flag=True, help="Nothing runs: look for what was left over, too.")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many rows of each broken check and scope are named; all are counted.",
)
@click.pass_obj
def command(session: Session, scopes: Sequence[str], *, quiescent: bool, limit: int) -> int:
    """Check by SQL that the stored rows keep every promise of the domain, in one snapshot a scope.

    Safe while others work: it reads, locks nothing and writes nothing. Without --scope all scopes are checked. What is
    merely late, or only has to be known, is a warning.

    Exit code 1 if an invariant is broken.
    """
    return run(lambda: _check(session, scopes, limit, quiescent=quiescent))


async def _check(session: Session, scopes: Sequence[str], limit: int, *, quiescent: bool) -> int:
    wanted = [parse_scope(scope) for scope in scopes] or None
    async with _database(session.settings()) as dsn:
        report = await check(dsn, wanted, limit, quiescent=quiescent)
    if session.output.as_json:
        session.output.document(_document(report))
    else:
        _show(session, report)
    return int(not report.holds)


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[str]:
    """Find the database as it is: unlike a command that works on it, this one migrates nothing and makes none."""
    if settings.dsn is not None:
        check_dsn(settings.dsn)
        yield settings.dsn
        return
    if not (settings.cluster_dir / "cluster").is_dir():
        raise SchemaMissing(f"there is no library in {settings.data_dir}")
    server = EmbeddedPostgres(settings.cluster_dir)
    try:
        await asyncio.to_thread(server.start)
        yield server.dsn()
    finally:
        await asyncio.to_thread(server.stop)


def _document(report: Report) -> Mapping[str, object]:
    return {
        "holds": report.holds,
        "scopes": report.scopes,
        "revision": report.revision,
        "checks": [
            {
                "invariant": result.invariant,
                "name": result.name,
                "sentence": result.sentence,
                "violations": result.violations,
                "warning": result.warning,
                "skipped": result.skipped,
                "examples": [{"scope": each.scope, "row": each.row, "told": each.told} for each in result.examples],
            }
            for result in report.results
        ],
    }


def _show(session: Session, report: Report) -> None:
    rows = [(result.invariant, result.name, _found(result), result.sentence) for result in report.results]
    session.output.table(table_of("", ("invariant", "check", "rows", "what must hold"), rows, right=["rows"]))
    for result in (*report.broken, *report.warnings):
        for example in result.examples:
            session.output.say(f"{result.invariant} {result.name}: {one_line(str(example), _LONGEST)}")
        if (more := result.violations - len(result.examples)) > 0:
            session.output.say(f"{result.invariant} {result.name}: ... and {more} more")
    session.output.say(_summary(report))


def _found(result: Result) -> str:
    if result.skipped:
        return "skipped"
    if not result.violations:
        return "ok"
    return f"{result.violations} to know" if result.warning else str(result.violations)


def _summary(report: Report) -> str:
    scopes = f"{report.scopes} scope" + ("" if report.scopes == 1 else "s")
    skipped = sum(result.skipped for result in report.results)
    known = f"; {skipped} checks do not know schema revision {report.revision}" if skipped else ""
    if report.holds:
        return f"every invariant holds in {scopes}{known}"
    return f"{len(report.broken)} checks found what must not be in {scopes}{known}"

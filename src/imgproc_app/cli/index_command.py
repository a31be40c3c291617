"""``imgproc index``: an index of its own for every large scope."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Final

import click
from attrs import evolve, frozen
from rich.status import Status

from imgproc_adapters.postgres.search_indexes import (
    Builder,
    Building,
    Candidate,
    Index,
    Todo,
    candidates,
    indexes,
    open_builder,
    progress,
    todo,
)
from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import scopes_option
from imgproc_app.cli.output import Output, table_of
from imgproc_app.cli.scopes import each_wanted, named
from imgproc_app.cli.session import Session, run
from imgproc_app.lifecycle import Runtime
from imgproc_domain.errors import InvalidValue
from imgproc_domain.scope import Scope

_LOOK: Final = 1.0
_COLUMNS: Final = ("scope", "space", "vectors", "index", "what", "seconds")


@frozen
class _Call:
    """What was typed."""

    session: Session
    scopes: Sequence[Scope]
    above: int | None
    how: Building
    drop: bool
    dry_run: bool


@frozen
class _Line:
    """A scope's vectors in a space, or an index that nothing is known of any more, and what becomes of it."""

    name: str
    todo: Todo
    index: Index | None
    candidate: Candidate | None = None
    seconds: float | None = None


@click.command("index")
@scopes_option
@click.option(
    "--above",
    type=click.IntRange(min=1),
    metavar="N",
    help="Build for more than so many vectors. [default: IMGPROC_HNSW_ABOVE, 20000]",
)
@click.option("--drop", is_flag=True, help="Drop the indexes, of all scopes or the named ones, and build none.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option(
    "--memory",
    type=click.IntRange(1, 1_000_000),
    metavar="MB",
    help="Memory for building. [default: what an index needs, up to 1024]",
)
@click.option(
    "--workers", type=click.IntRange(0, 64), metavar="N", help="Helping processes of a build. [default: the server's]"
)
@click.pass_obj
def command(
    session: Session,
    scopes: Sequence[str],
    *,
    above: int | None,
    drop: bool,
    dry_run: bool,
    memory: int | None,
    workers: int | None,
) -> int:
    """Give every large scope an index of its own, so that its searches need not compare every vector.

    An index is approximate (HNSW), finds 98 of 100 and more, and makes writing to that scope dearer: scopes below the
    threshold are quicker without. Those that have shrunk to half of it, and spaces that are not searched any more, lose
    theirs. Safe beside workers and searches, as often as you like: what was interrupted is built again, and a second
    process waits for the first.
    """
    call = _Call(session, named(scopes), above, Building(memory, workers), drop=drop, dry_run=dry_run)
    return run(lambda: _index(call))


async def _index(call: _Call) -> int:
    output = call.session.output
    settings = call.session.settings()
    if settings.pooler and not call.dry_run:
        raise InvalidValue("an index is built over a connection of its own: IMGPROC_DSN must lead past the pooler")
    async with opened(settings) as runtime:
        above = call.above or settings.hnsw_above
        with _status(output, "counting vectors") as status:
            lines = await _survey(call, runtime, above)
            if not call.dry_run and any(line.todo is not Todo.NOTHING for line in lines):
                lines = await _work(call, runtime, above, status)
    if output.as_json:
        output.document({"above": above, "dry_run": call.dry_run, "indexes": [_document(line) for line in lines]})
    else:
        _show(call, lines)
    return 0


async def _survey(call: _Call, runtime: Runtime, above: int) -> list[_Line]:
    there = await indexes(runtime.engine)
    usual = runtime.deployment.text.space
    lines: list[_Line] = []
    async with aclosing(each_wanted(runtime, call.scopes)) as wanted:
        async for scope in wanted:
            lines += [
                _Line(each.name, _decided(call, each, above), each.index, each)
                for each in await candidates(runtime.engine, scope, usual, there)
            ]
    if not call.scopes:
        known = {line.name for line in lines}
        lines += [_Line(index.name, Todo.DROP, index) for index in there if index.name not in known]
    return lines


def _decided(call: _Call, candidate: Candidate, above: int) -> Todo:
    if call.drop:
        return Todo.DROP if candidate.index else Todo.NOTHING
    return todo(candidate, above)


async def _work(call: _Call, runtime: Runtime, above: int, status: Status) -> list[_Line]:
    """Do what is to be done, one after the other; what another process did meanwhile is seen and not done again."""
    status.update("waiting for another process that builds indexes")
    done: list[_Line] = []
    async with open_builder(runtime.dsn) as builder:
        status.update("counting vectors")
        for line in await _survey(call, runtime, above):
            begun = time.monotonic()
            if line.todo is Todo.NOTHING:
                done.append(line)
                continue
            await _one(call, runtime, builder, line, status)
            now = {index.name: index for index in await indexes(runtime.engine)}
            done.append(evolve(line, index=now.get(line.name), seconds=time.monotonic() - begun))
    return done


async def _one(call: _Call, runtime: Runtime, builder: Builder, line: _Line, status: Status) -> None:
    if line.todo is Todo.DROP or line.candidate is None:
        status.update(f"dropping {line.name}")
        await builder.drop(line.name)
        return
    told = f"building for {line.candidate.vectors:,} vectors of {line.candidate.scope}"
    if not call.session.output.live:
        call.session.output.note(told)
    watching = asyncio.create_task(_watch(runtime, line.name, told, status))
    try:
        await builder.build(line.candidate, call.how)
    finally:
        watching.cancel()
        # that nobody could look on is no reason to build nothing
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(runtime: Runtime, name: str, told: str, status: Status) -> None:
    while True:
        found = await progress(runtime.engine, name)
        status.update(told if found is None else f"{told}: {found.vectors:,}, {found.phase}")
        await asyncio.sleep(_LOOK)


@contextmanager
def _status(output: Output, said: str) -> Iterator[Status]:
    with Status(said, console=output.err) as status:
        if not output.live:
            status.stop()
        yield status


def _document(line: _Line) -> Mapping[str, object]:
    index, candidate = line.index, line.candidate
    return {
        "name": line.name,
        "scope": candidate.scope if candidate else None,
        "space": candidate.space.id if candidate else None,
        "dimension": candidate.space.dimension if candidate else None,
        "vectors": candidate.vectors if candidate else None,
        "used": candidate.used if candidate else False,
        "index": None if index is None else {"ready": index.ready, "bytes": index.size},
        "todo": line.todo.value,
        "seconds": None if line.seconds is None else round(line.seconds, 2),
    }


def _show(call: _Call, lines: Sequence[_Line]) -> None:
    output = call.session.output
    shown = [line for line in lines if line.index or line.todo is not Todo.NOTHING]
    if shown:
        output.table(table_of("", _COLUMNS, [_cells(line) for line in shown], right=["vectors", "seconds"]))
    counts = {what: sum(line.todo is what for line in lines) for what in Todo}
    built, dropped = counts[Todo.BUILD] + counts[Todo.REBUILD], counts[Todo.DROP]
    said = ("to build", "to drop") if call.dry_run else ("built", "dropped")
    ready = sum(line.index is not None and line.index.ready for line in lines)
    output.say(f"{built} {said[0]}, {dropped} {said[1]}, {ready} ready")


def _cells(line: _Line) -> tuple[str, ...]:
    index, candidate = line.index, line.candidate
    state = "none" if index is None else f"{index.size / 1024**2:,.0f} MB" if index.ready else "unfinished"
    return (
        candidate.scope if candidate else "(gone)",
        candidate.space.id if candidate else line.name,
        f"{candidate.vectors:,}" if candidate else "",
        state,
        "" if line.todo is Todo.NOTHING else line.todo.value,
        "" if line.seconds is None else f"{line.seconds:.1f}",
    )

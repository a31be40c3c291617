"""``imgproc prune``: let old history go."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing

import click
from attrs import define, field, frozen
from rich.status import Status

from imgproc_adapters.blobs.old import LocalOldBlobs
from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import scopes_option
from imgproc_app.cli.output import table_of
from imgproc_app.cli.scopes import each_wanted, named
from imgproc_app.cli.session import Session, run
from imgproc_app.lifecycle import Runtime
from imgproc_domain.retention import Kind, parse_age
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.prune import BATCH, MOST, Pruning, prune


@frozen
class _Call:
    """What was typed. ``pause`` is in seconds."""

    session: Session
    scopes: Sequence[Scope]
    wanted: Pruning
    pause: float


@click.command("prune")
@scopes_option
@click.option(
    "--older-than", default="90d", show_default=True, metavar="AGE", help="Hours, days or weeks (36h, 90d, 12w), >= 1d."
)
@click.option("--vectors", is_flag=True, help="Vectors of former pictures, words and models, too.")
@click.option("--dry-run", is_flag=True, help="Count what would go, and change nothing.")
@click.option(
    "--batch", default=BATCH, show_default=True, type=click.IntRange(1, MOST), help="Rows looked at in a transaction."
)
@click.option(
    "--pause", default=0.0, show_default=True, type=click.FloatRange(min=0), help="Seconds between two transactions."
)
@click.pass_obj
def command(
    session: Session,
    scopes: Sequence[str],
    *,
    older_than: str,
    vectors: bool,
    dry_run: bool,
    batch: int,
    pause: float,
) -> int:
    """Delete history that nobody decides on any more: superseded jobs, deleted pictures, what was remembered for them.

    Safe beside workers, in short transactions, and as often as you like: one that was interrupted goes on when it is
    called again. Kept is the newest job of every picture and policy, whatever is not over, and every unknown execution
    that nobody resolved. Without --scope all scopes are pruned.
    """
    wanted = Pruning(older_than=parse_age(older_than), batch=batch, vectors=vectors, dry_run=dry_run)
    call = _Call(session, named(scopes), wanted, pause)
    return run(lambda: _prune(call))


@define
class _Total:
    scopes: int = 0
    counts: Counter[Kind] = field(factory=Counter)


async def _prune(call: _Call) -> int:
    total = _Total()
    output = call.session.output
    async with opened(call.session.settings()) as runtime:
        with Status("looking for old history", console=output.err) as status:
            if not output.live:
                status.stop()
            async for scope in each_wanted(runtime, call.scopes):
                await _one(call, runtime, scope, total, status)
    if output.as_json:
        output.document(_document(call, total))
    else:
        _show(call, total)
    return 0


async def _one(call: _Call, runtime: Runtime, scope: Scope, total: _Total, status: Status) -> None:
    blobs = LocalOldBlobs(runtime.container.blobs(), runtime.settings.blob_dir)
    async with aclosing(prune(runtime.deployment, blobs, scope, call.wanted)) as pages:
        async for counts in pages:
            total.counts.update(counts)
            status.update(f"scope {scope}: {sum(total.counts.values())} rows and files so far")
            await asyncio.sleep(call.pause)
    total.scopes += 1


def _document(call: _Call, total: _Total) -> Mapping[str, object]:
    return {
        "dry_run": call.wanted.dry_run,
        "older_than_seconds": int(call.wanted.older_than.total_seconds()),
        "scopes": total.scopes,
        "pruned": {kind.value: total.counts[kind] for kind in Kind},
    }


def _show(call: _Call, total: _Total) -> None:
    output = call.session.output
    found = [(kind.value.replace("_", " "), str(total.counts[kind])) for kind in Kind if total.counts[kind]]
    said = "would go" if call.wanted.dry_run else "gone"
    if found:
        output.table(table_of("", ("kind", said), found, right=[said]))
    scopes = f"{total.scopes} scope" + ("" if total.scopes == 1 else "s")
    output.say(f"{sum(total.counts.values())} rows and files {said} in {scopes}")

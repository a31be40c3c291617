"""``imgproc generation``: copies of a library's search index, that a rollback to the legacy index would read."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import click

from imgproc_app.cli.backfill_view import Advance, named_space
from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import global_options
from imgproc_app.cli.output import one_line, table_of
from imgproc_app.cli.session import INTERRUPTED, Session, Stop, pause, run, run_until_stopped
from imgproc_app.lifecycle import Runtime
from imgproc_domain.ids import TaskId
from imgproc_domain.scope import Scope
from imgproc_domain.task import TaskStatus
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.maintenance import (
    GenerationView,
    list_generations,
    request_generation,
    show_generation,
    to_copy,
)

_LOOK_EVERY: Final = 0.25
_MOST: Final = 100


@click.group("generation")
def command() -> None:
    """Copy what searches find into an index of its own, and list such copies.

    A generation is what 'imgproc backfill rollback --to legacy' reads. Making one changes nothing of what is found.
    They belong to the scope of IMGPROC_SCOPE.
    """


@command.command("build", short_help="Queue the building of a generation.")
@click.option("--wait", is_flag=True, help="Until it is complete; this process builds it unless a worker does.")
@click.pass_obj
def build_command(session: Session, *, wait: bool) -> int:
    """Queue the building of a generation over the whole scope; 'imgproc serve' or 'imgproc worker' builds it.

    With --wait the exit code is 1 if it failed; Ctrl-C leaves the task to the workers.
    """
    return run_until_stopped(lambda stop: _build(session, stop, wait=wait))


@command.command("list", short_help="List generations.")
@click.option("-n", "--number", type=click.IntRange(1, _MOST), default=10, show_default=True)
@click.pass_obj
def list_command(session: Session, number: int) -> int:
    """List the newest generations. The first complete one is what a rollback would read."""
    return run(lambda: _list(session, number))


# as with every other command, the global options may stand behind it
for subcommand in command.commands.values():
    subcommand.params += global_options()


async def _build(session: Session, stop: Stop, *, wait: bool) -> int:
    output = session.output
    async with opened(session.settings()) as runtime:
        task = await request_generation(runtime.deployment, runtime.scope)
        if wait:
            async with _worker(runtime):
                view = await built(runtime.deployment, runtime.scope, task.task_id, Advance(output), stop)
        else:
            view = GenerationView(task, None)
    if output.as_json:
        output.document(_document(view))
    output.say(_in_words(view))
    if not wait:
        output.note("'imgproc serve' or 'imgproc worker' builds it, 'imgproc generation list' shows how far it is")
    return INTERRUPTED if stop.is_set() else int(view.task.status is TaskStatus.FAILED)


@asynccontextmanager
async def _worker(runtime: Runtime) -> AsyncIterator[None]:
    """Work on maintenance tasks for the length of the block. It has no models, so a second one costs nothing."""
    worker = runtime.container.task_worker()
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


async def built(deployment: Deployment, scope: Scope, task_id: TaskId, advance: Advance, stop: Stop) -> GenerationView:
    """Return what became of a generation, and show meanwhile how much of what it copies is copied."""
    with advance.shown():
        # not what searches find: in a legacy scope that is what an earlier generation copied
        advance.begin(scope, await to_copy(deployment, scope))
        seen = 0
        while True:
            view = await show_generation(deployment, scope, task_id)
            if view.generation is not None:
                advance.seen(view.generation.entries - seen)
                seen = view.generation.entries
            if not view.task.live or stop.is_set():
                return view
            await pause(_LOOK_EVERY, stop)


async def _list(session: Session, number: int) -> int:
    output = session.output
    async with opened(session.settings()) as runtime:
        page = await list_generations(runtime.deployment, runtime.scope, None, number)
    if output.as_json:
        output.document({"generations": [_document(view) for view in page.generations]})
    elif page.generations:
        columns = ("task id", "status", "model", "pictures", "complete since", "message")
        rows = [_row(runtime, view) for view in page.generations]
        output.table(table_of("", columns, rows, right=["pictures"]))
    else:
        output.say("there is no generation: 'imgproc generation build' makes one")
    return 0


def _in_words(view: GenerationView) -> str:
    entries = view.generation.entries if view.generation else 0
    error = f": {one_line(view.task.error.message)}" if view.task.error else ""
    return f"{view.task.task_id}: {view.task.status.value}, {entries} pictures{error}"


def _row(runtime: Runtime, view: GenerationView) -> Sequence[str]:
    task, found = view.task, view.generation
    return (
        str(task.task_id),
        task.status.value,
        named_space(runtime, found.space) if found else "",
        str(found.entries) if found else "",
        found.completed_at.isoformat(" ", "seconds") if found and found.completed_at else "",
        one_line(task.error.message) if task.error else "",
    )


def _document(view: GenerationView) -> Mapping[str, object]:
    task, found = view.task, view.generation
    return {
        "task_id": task.task_id,
        "status": task.status.value,
        "generation_id": found.generation_id if found else None,
        "model": found.space.id if found else None,
        "entries": found.entries if found else 0,
        "created_at": task.created_at,
        "completed_at": found.completed_at if found else None,
        "error": task.error.code.value if task.error else None,
        "message": task.error.message if task.error else None,
    }

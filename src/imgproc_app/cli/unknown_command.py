"""``imgproc unknown``: executions of which nobody can prove how they ended, and how a person closes them."""

import getpass
from uuid import UUID

import click

from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import global_options
from imgproc_app.cli.session import Session, run
from imgproc_app.cli.unknown_view import (
    detail_document,
    detail_tables,
    execution_document,
    executions_table,
    resolution_document,
)
from imgproc_domain.ids import TaskId
from imgproc_domain.job import RETRYABLE
from imgproc_domain.ports.evidence import Resolution, parse_resolution
from imgproc_domain.usecases.unknown import UnknownExecution, list_unknown, resolve_unknown, show_unknown

_PAGE = 100


@click.group("unknown")
def command() -> None:
    """Look at executions of which nobody can prove how they ended, and close them.

    A call may have been made, and nothing says what became of it. It is never repeated by itself: find out at the
    provider, 'resolve' it to record what you found, and 'imgproc retry' its job if it should be tried again.
    """


@command.command("list", short_help="List those that nobody resolved.")
@click.option("--all", "everything", is_flag=True, help="Those that were resolved, too.")
@click.pass_obj
def list_command(session: Session, *, everything: bool) -> int:
    """List unknown executions that nobody resolved, newest first.

    Exit code 1 if there are any.
    """
    return run(lambda: _list(session, everything=everything))


@command.command("show", short_help="Show all that is known of one.")
@click.argument("task_id", type=click.UUID)
@click.pass_obj
def show_command(session: Session, task_id: UUID) -> int:
    """Show all that is known of one: the ids to ask the provider by, its grant, its slot, what came too late."""
    wanted = TaskId(task_id)
    return run(lambda: _show(session, wanted))


@command.command("resolve", short_help="Record that one is closed, and why.")
@click.argument("task_id", type=click.UUID)
@click.option("--reason", required=True, metavar="TEXT", help="Why it can be closed.")
@click.option("--evidence", required=True, metavar="TEXT", help="How you know.")
@click.option("--owner-dead", is_flag=True, help="The worker that made the call is certainly gone.")
@click.option("--call-over", is_flag=True, help="The provider certainly does nothing for this call any more.")
@click.option("--by", "name", metavar="NAME", help="Who says so.  [default: the user of this shell]")
@click.pass_obj
def resolve_command(
    session: Session, task_id: UUID, *, reason: str, evidence: str, owner_dead: bool, call_over: bool, name: str | None
) -> int:
    """Record, once and for all, that an unknown execution is closed, and why.

    Task, job and grant stay as they are. With both --owner-dead and --call-over its place in the agent lane is free at
    once; until the call's hard deadline has passed, both are needed.
    """
    said = parse_resolution(
        reason,
        evidence,
        owner_dead=owner_dead,
        call_over=call_over,
        resolved_by=_user() if name is None else name,
    )
    wanted = TaskId(task_id)
    return run(lambda: _resolve(session, wanted, said))


# as with every other command, the global options may stand behind it
for subcommand in command.commands.values():
    subcommand.params += global_options()


async def _list(session: Session, *, everything: bool) -> int:
    found: list[UnknownExecution] = []
    after: TaskId | None = None
    async with opened(session.settings()) as runtime:
        while True:
            page = await list_unknown(
                runtime.deployment, runtime.scope, after, _PAGE, resolved=None if everything else False
            )
            found += page.executions
            if page.after is None:
                break
            after = page.after
    unresolved = sum(execution.resolved is None for execution in found)
    if session.output.as_json:
        session.output.document({"unresolved": unresolved, "executions": [execution_document(one) for one in found]})
    elif found:
        session.output.table(executions_table(found))
    else:
        session.output.say("there is no unknown execution" + ("" if everything else " that nobody resolved"))
    return int(unresolved > 0)


async def _show(session: Session, task_id: TaskId) -> int:
    async with opened(session.settings()) as runtime:
        found = await show_unknown(runtime.deployment, runtime.scope, task_id)
    if session.output.as_json:
        session.output.document(detail_document(found))
    for table in detail_tables(found):
        session.output.table(table)
    return 0


async def _resolve(session: Session, task_id: TaskId, said: Resolution) -> int:
    async with opened(session.settings()) as runtime:
        resolved = await resolve_unknown(runtime.deployment, runtime.scope, task_id, said)
        newest = (await show_unknown(runtime.deployment, runtime.scope, task_id)).newest
    again = newest.job_id if newest is not None and newest.status in RETRYABLE else None
    if session.output.as_json:
        session.output.document({"task_id": task_id, **resolution_document(resolved), "retryable_job_id": again})
    session.output.say(f"{task_id}: resolved")
    if again is not None:
        session.output.note(f"nothing is tried again by itself: 'imgproc retry {again}' does")
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # a container may run under a number that has no name
        return "operator"

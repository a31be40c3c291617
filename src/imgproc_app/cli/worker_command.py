"""``imgproc worker``: a worker alone."""

from collections.abc import Mapping

import click

from imgproc_app.cli.opening import opened
from imgproc_app.cli.output import table_of
from imgproc_app.cli.session import Session, Stop, first_of, run_until_stopped
from imgproc_app.lifecycle import Runtime, working
from imgproc_domain.stage import LANE_OF, TASK_TYPE_OF, Lane


@click.command("worker")
@click.pass_obj
def command(session: Session) -> int:
    """Run a worker alone. Any number may run, on any machines, on one database and one blob directory.

    SIGINT (Ctrl-C) and SIGTERM stop it in order, with exit code 0; a second signal ends it at once.
    """
    return run_until_stopped(lambda stop: _work(session, stop))


async def _work(session: Session, stop: Stop) -> int:
    output = session.output
    async with opened(session.settings()) as runtime:
        output.note("loading the models ...")
        if await first_of(runtime.warm(), stop):
            async with working(runtime):
                _announce(session, runtime)
                await stop.wait()
                output.note("stopping: calls under way may finish, the rest is given back ...")
    output.note("stopped")
    return 0


def _announce(session: Session, runtime: Runtime) -> None:
    owned = _owned(runtime)
    if session.output.as_json:
        session.output.document({"event": "ready", "owns": owned})
    rows = [(str(item["task_type"]), str(item["lane"]), _bound(item)) for item in owned]
    session.output.table(table_of("this worker owns", ("task type", "lane", "at once"), rows))


def _owned(runtime: Runtime) -> list[Mapping[str, str | int]]:
    lanes = runtime.deployment.limits.lanes
    return [
        {"stage": stage.value, "task_type": kind.value, "lane": LANE_OF[kind].value, "limit": lanes[LANE_OF[kind]]}
        for stage, kind in TASK_TYPE_OF.items()
    ]


def _bound(item: Mapping[str, str | int]) -> str:
    shared = item["lane"] == Lane.AGENT
    return f"{item['limit']} over all processes" if shared else f"{item['limit']}"

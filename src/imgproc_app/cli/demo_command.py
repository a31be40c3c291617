"""``imgproc demo``: see it work."""

import hashlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
from attrs import define, evolve, frozen

from imgproc_app.asgi import AddressUnusable, Service, listen, serving
from imgproc_app.cli import STARTED
from imgproc_app.cli.driving import drive
from imgproc_app.cli.folder import holds_pictures, walk
from imgproc_app.cli.intake import Intake, Outcome
from imgproc_app.cli.jobs import Followed, JobFollower, running_tasks
from imgproc_app.cli.opening import opened
from imgproc_app.cli.options import folder_type
from imgproc_app.cli.output import Output, one_line
from imgproc_app.cli.program import command_line
from imgproc_app.cli.questions import Answered, answers_table, ask, examples
from imgproc_app.cli.samples import Question, read_questions, samples_folder
from imgproc_app.cli.session import Session, Stop, run_until_stopped
from imgproc_app.cli.stage_view import StageView
from imgproc_app.lifecycle import Runtime, working
from imgproc_app.settings import Settings
from imgproc_domain.errors import CacheNotReady, ImgprocError
from imgproc_domain.ids import JobId

REPORT: Final = Path("reports/demo.json")


class NoPictures(ImgprocError):
    """There is nothing to show."""

    code = "no_pictures"


@frozen
class Plan:
    """What is shown: the samples with their questions, or somebody's own folder."""

    folder: Path
    questions: Sequence[Question]
    settings: Settings

    @property
    def own(self) -> bool:
        return not self.questions


@define
class Measured:
    """``first_result`` is when a search had a result for the first time, in seconds since the start."""

    first_result: float | None = None
    pictures: int = 0
    succeeded: int = 0
    rejected: int = 0
    answered: Sequence[Answered] = ()

    def document(self) -> Mapping[str, object]:
        asked = [item for item in self.answered if item.question.file is not None]
        return {
            "pictures": self.pictures,
            "succeeded": self.succeeded,
            "queries": len(asked),
            "hits_at_3": sum(item.hit for item in asked),
            "seconds_to_first_result": None if self.first_result is None else round(self.first_result, 2),
            "seconds_total": round(time.monotonic() - STARTED, 2),
        }


@click.command("demo")
@click.argument("folder", required=False, type=folder_type(exists=True))
@click.option("--once", is_flag=True, help="End by itself, and write reports/demo.json.")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 picks a free one.  [default: 8000 or a free one]")
@click.pass_obj
def command(session: Session, folder: Path | None, port: int | None, *, once: bool) -> int:
    """See it work: import pictures, watch them move through the three stages, search, and serve them.

    Takes the sample pictures, or those of FOLDER. Everything is kept in a library of its own below the data
    directory, with an embedded PostgreSQL, so that a second run is quick. Ctrl-C ends it, with exit code 0
    ('make' around it ends by the signal itself).

    With --once the exit code is 1 if a picture did not succeed.
    """
    plan = _plan(session.settings(port=port), folder)
    if not holds_pictures(plan.folder):
        raise NoPictures(f"there are no pictures in {plan.folder}")
    return run_until_stopped(lambda stop: _demo(session, plan, stop, once=once, port_given=port is not None))


def _plan(settings: Settings, folder: Path | None) -> Plan:
    if folder is None:
        samples = samples_folder()
        return Plan(samples, read_questions(samples), _library(settings, "demo"))
    # a library for each folder, so that the pictures of one are not found in another
    mark = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:8]
    return Plan(folder, (), _library(settings, f"demo-{mark}"))


def _library(settings: Settings, name: str) -> Settings:
    return evolve(settings, data_dir=settings.data_dir / name, dsn=None, pooler=False)


async def _demo(session: Session, plan: Plan, stop: Stop, *, once: bool, port_given: bool) -> int:
    output, measured = session.output, Measured()
    with _listen(plan.settings, output, port_given=port_given) as bound:
        output.note(f"starting the embedded PostgreSQL in {plan.settings.data_dir} ...")
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(opened(plan.settings))
            await stack.enter_async_context(working(runtime))
            service = await stack.enter_async_context(serving(runtime, bound))
            await _process(session, plan, runtime, measured, stop)
            if not stop.is_set():
                await _ask(session, plan, runtime, measured)
                _conclude(session, plan, service, measured)
            if once:
                _write(session, measured)
            else:
                await stop.wait()
                output.note("stopping ...")
    output.note("stopped")
    return int(once and measured.succeeded < measured.pictures + measured.rejected)


def _listen(settings: Settings, output: Output, *, port_given: bool) -> socket.socket:
    try:
        return listen(settings.host, settings.port)
    except AddressUnusable:
        if port_given:
            raise
        output.note(f"port {settings.port} is not free: the service will take another one")
        return listen(settings.host, 0)


async def _process(session: Session, plan: Plan, runtime: Runtime, measured: Measured, stop: Stop) -> None:
    """Take the pictures in and show them until every one has ended."""
    follower = JobFollower(runtime.deployment, runtime.scope)
    view = StageView(session.output, f"pictures of {plan.folder}")
    shown: dict[JobId, str] = {}

    async def taking() -> None:
        async for item in Intake(runtime.deployment, runtime.scope).run(walk(plan.folder), stop):
            name = one_line(str(item.path.relative_to(plan.folder)), 255)
            # files with the same content are one picture, known by the name that came first
            if item.job is not None and shown.setdefault(item.job.job_id, name) == name:
                view.put(Followed(name, item.job))
                follower.add(name, item.job.job_id)
            elif item.outcome is Outcome.REJECTED:
                measured.rejected += 1
                session.output.note(f"{name}: rejected: {item.code}: {one_line(item.reason or '')}")

    async def tick(seen: Sequence[Followed]) -> None:
        view.running(await running_tasks(runtime))
        for followed in seen:
            view.put(followed)
        if measured.first_result is None and view.succeeded > 0:
            await _first_result(plan, runtime, measured)

    with view.shown():
        await drive(taking(), follower, tick, stop)
    measured.pictures, measured.succeeded = view.total, view.succeeded


async def _first_result(plan: Plan, runtime: Runtime, measured: Measured) -> None:
    question = plan.questions[0] if plan.questions else Question("picture", "en", None)
    try:
        answered = await ask(runtime, question)
    except CacheNotReady:
        return
    if answered.answers:
        measured.first_result = time.monotonic() - STARTED


async def _ask(session: Session, plan: Plan, runtime: Runtime, measured: Measured) -> None:
    if measured.succeeded == 0:
        session.output.note("no picture can be searched")
        return
    questions = plan.questions or await examples(runtime)
    if not questions:
        return
    measured.answered = [await ask(runtime, question) for question in questions]
    title = "searches, with the words of your pictures" if plan.own else "searches"
    session.output.table(answers_table(title, measured.answered, session.output.out.width))


def _conclude(session: Session, plan: Plan, service: Service, measured: Measured) -> None:
    found = measured.document()
    if session.output.as_json:
        session.output.document({**found, "url": service.url})
    session.output.say(
        f"{found['succeeded']} of {found['pictures']} pictures succeeded, first result after"
        f" {found['seconds_to_first_result']} s, all done after {found['seconds_total']} s"
    )
    if not plan.own:
        session.output.say(f"{found['hits_at_3']} of {found['queries']} queries found their picture in the first three")
    session.output.say(f"the service runs on {service.url} (its interface: {service.url}/schema/openapi.json)")
    session.output.say("this library is the demo's own; to search it yourself:")
    session.output.say(f"""  {command_line(plan.settings.data_dir, "search", '"..."')}""")


def _write(session: Session, measured: Measured) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(measured.document(), indent=2) + "\n", "utf-8")
    session.output.note(f"written to {REPORT}")

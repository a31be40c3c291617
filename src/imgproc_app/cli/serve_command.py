"""``imgproc serve``: the API and a worker in one process."""

from contextlib import AsyncExitStack

import click

from imgproc_app.asgi import listen, serving, url_of
from imgproc_app.cli.opening import opened
from imgproc_app.cli.session import Session, Stop, first_of, run_until_stopped
from imgproc_app.lifecycle import working
from imgproc_app.settings import Settings


@click.command("serve")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 picks a free one.  [default: 8000]")
@click.option("--no-worker", is_flag=True, help="Serve the API only; pictures wait for 'imgproc worker'.")
@click.pass_obj
def command(session: Session, host: str | None, port: int | None, *, no_worker: bool) -> int:
    """Run the API and a worker in one process.

    SIGINT (Ctrl-C) and SIGTERM stop it in order, with exit code 0: requests and model calls under way may finish,
    the rest is given back. A second signal ends it at once, which loses nothing either.
    """
    settings = session.settings(host=host, port=port)
    return run_until_stopped(lambda stop: _serve(session, settings, stop, worker=not no_worker))


async def _serve(session: Session, settings: Settings, stop: Stop, *, worker: bool) -> int:
    output = session.output
    with listen(settings.host, settings.port) as bound:
        output.note(f"starting on {url_of(bound)} ...")
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(opened(settings))
            if worker:
                await stack.enter_async_context(working(runtime))
            service = await stack.enter_async_context(serving(runtime, bound))
            if await first_of(service.readiness.warmed(), stop):
                _announce(session, service.url, worker=worker)
                await first_of(service.ended, stop)
            output.note("stopping ...")
    output.note("stopped")
    return 0


def _announce(session: Session, url: str, *, worker: bool) -> None:
    if session.output.as_json:
        session.output.document({"event": "ready", "url": url, "worker": worker})
    session.output.say(f"ready on {url}" + ("" if worker else " (API only)"))

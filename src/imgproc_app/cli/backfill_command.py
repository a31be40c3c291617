"""``imgproc backfill``: bring pictures that are there already into incremental search, and change its model."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import click

from imgproc_adapters.text.encoders import TEXT_MODELS
from imgproc_app.cli.backfill_run import Call, embed_all, seed_all
from imgproc_app.cli.backfill_steps import change_all, show_all
from imgproc_app.cli.options import global_options, scopes_option
from imgproc_app.cli.scopes import named
from imgproc_app.cli.session import Session, run, run_until_stopped
from imgproc_domain.search import Source
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.backfill import MOST_EMBEDDED, MOST_SUBMITTED, Embedding, Seeding

_WINDOW: Final = 100
_STEP_SECONDS: Final = 5
"""Pictures looked at between two steps of the progress bar, and where --rate makes them slow, how long one takes."""
_LEGACY: Final = Source.LEGACY.value

_rate = click.option("--rate", type=click.FloatRange(0, min_open=True), help="At most so many pictures a second.")


@click.group("backfill")
def command() -> None:
    """Bring pictures that are there already into search, and change what it reads, while it goes on answering.

    'seed' queues pictures that were never processed, 'embed' embeds what a text model still lacks, 'switch' lets
    searches read it once nothing is missing. Without --scope all scopes are worked on.
    """


@command.command("seed", short_help="Queue pictures that were never processed.")
@scopes_option
@click.option("--all", "everything", is_flag=True, help="Those with a job, too: what is stale of them is made again.")
@click.option(
    "--reverse-image-policy",
    "policy",
    type=click.Choice([policy.value for policy in ReverseImagePolicy]),
    default=ReverseImagePolicy.FORBID.value,
    show_default=True,
)
@_rate
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_SUBMITTED),
    default=Seeding().batch,
    show_default=True,
    help="Pictures looked at in a transaction.",
)
@click.pass_obj
def seed_command(
    session: Session, scopes: Sequence[str], *, everything: bool, policy: str, rate: float | None, batch: int
) -> int:
    """Queue every picture that has no job, as an upload would have done; 'imgproc worker' processes them.

    What failed, or is blocked, is not tried again: 'imgproc retry --failed' does. Ctrl-C ends it in order; called
    again it goes on. Exit code 1 if a picture was refused.
    """
    wanted = Seeding(ReverseImagePolicy(policy), everything, batch)
    call = _call(session, scopes, rate)
    return run_until_stopped(lambda stop: seed_all(call, wanted, stop))


@command.command("embed", short_help="Embed what a text model still lacks.")
@scopes_option
@click.option(
    "--model",
    type=click.Choice(list(TEXT_MODELS)),
    help="The model to fill beside the one that is searched with.  [default: the one being filled, or searched with]",
)
@_rate
@click.option(
    "--batch",
    type=click.IntRange(1, MOST_EMBEDDED),
    default=Embedding().batch,
    show_default=True,
    help="Texts handed to the model at once.",
)
@click.pass_obj
def embed_command(session: Session, scopes: Sequence[str], *, model: str | None, rate: float | None, batch: int) -> int:
    """Embed the words of every picture that a text model lacks. No agent is asked, and searches go on as they are.

    What was embedded before is taken over. A model other than the one that is searched with must be among
    IMGPROC_TEXT_MODEL and IMGPROC_MORE_TEXT_MODELS of all processes first: they embed what is new with both.

    Ctrl-C ends it in order; called again it goes on. Exit code 1 if a picture failed or a scope was refused.
    """
    call = _call(session, scopes, rate)
    window = _WINDOW if rate is None else min(_WINDOW, math.ceil(rate * _STEP_SECONDS))
    wanted = Embedding(window=window, batch=batch)
    return run_until_stopped(lambda stop: embed_all(call, wanted, model, stop))


@command.command("start", short_help="From legacy_only to backfill.")
@scopes_option
@click.pass_obj
def start_command(session: Session, scopes: Sequence[str]) -> int:
    """Begin to leave the legacy index: searches go on reading it until 'switch'. Harmless where that is done."""
    call = _call(session, scopes)
    return run(lambda: change_all(call, "start"))


def _allow_missing(function: Callable[..., int]) -> Callable[..., int]:
    option = click.option(
        "--allow-missing", type=click.IntRange(min=0), default=0, metavar="N", help="Leave up to N pictures unfindable."
    )
    return option(function)


@command.command("switch", short_help="Let searches read what was filled.")
@scopes_option
@_allow_missing
@click.pass_obj
def switch_command(session: Session, scopes: Sequence[str], *, allow_missing: int) -> int:
    """Let searches read what was filled: in one step a scope, and only if nothing is missing.

    Exit code 1 if a scope was refused; each is named with what it lacks. Without --scope, scopes in which there is
    nothing to switch are left alone.
    """
    call = _call(session, scopes)
    return run(lambda: change_all(call, "switch", allow_missing=allow_missing))


@command.command("rollback", short_help="Go back to what was read before.")
@scopes_option
@click.option("--to", type=click.Choice([*TEXT_MODELS, _LEGACY]), help="A model, or the legacy index.")
@_allow_missing
@click.pass_obj
def rollback_command(session: Session, scopes: Sequence[str], *, to: str | None, allow_missing: int) -> int:
    """Go back: stop filling, or with --to read what was read before, which must still be there.

    A model that lacks pictures by now is filled again first: 'embed', then 'switch'. Exit code 1 if a scope was
    refused.
    """
    call = _call(session, scopes)
    return run(lambda: change_all(call, "rollback", to=to, allow_missing=allow_missing))


@command.command("status", short_help="Show what scopes are searched with, and what is missing.")
@scopes_option
@click.pass_obj
def status_command(session: Session, scopes: Sequence[str]) -> int:
    """Show of every scope what its searches read, what is being filled, and how many pictures that still lacks.

    Exit code 1 if a scope is searched with a model that these settings do not have.
    """
    call = _call(session, scopes)
    return run(lambda: show_all(call))


def _call(session: Session, scopes: Sequence[str], rate: float | None = None) -> Call:
    return Call(session, named(scopes), rate)


# as with every other command, the global options may stand behind it
for subcommand in command.commands.values():
    subcommand.params += global_options()

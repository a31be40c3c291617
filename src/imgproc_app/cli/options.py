"""The global options: the same before and behind a subcommand."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from imgproc_app.cli.session import Session

JSON_VARIABLE: Final = "IMGPROC_JSON"
_YES: Final = frozenset({"1", "true", "yes", "on", "t", "y"})


def folder_type(*, exists: bool = False, file_okay: bool = False) -> click.Path[Path]:
    """Return the type of a folder; what is said of a wrong one calls it a folder."""
    kind = click.Path(exists=exists, file_okay=file_okay, path_type=Path)
    kind.name = "folder"
    return kind


scopes_option: Final = click.option(
    "--scope", "scopes", multiple=True, metavar="SCOPE", help="Only this scope; more than once for several."
)
"""Given as ``scopes``, which `scopes.named` reads."""


def wants_json(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether JSON is wanted, for errors in the arguments themselves."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options or environ.get(JSON_VARIABLE, "").lower() in _YES


def global_options() -> list[click.Parameter]:
    """Return new options whose values go to the `Session` of their command, where the last one given counts."""
    return [
        click.Option(
            ["--data-dir"],
            # whether it can be used is said by whoever uses it: the same for the variable, and the doctor explains it
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Where everything is kept.  [default: ${XDG_DATA_HOME:-~/.local/share}/imgproc]",
            **_KEPT,
        ),
        click.Option(["--dsn"], metavar="DSN", help="A PostgreSQL database, in place of the embedded one.", **_KEPT),
        click.Option(["--json"], is_flag=True, help="Print JSON on standard output, also IMGPROC_JSON=1.", **_KEPT),
        click.Option(
            ["--log-level"],
            type=click.Choice(["debug", "info", "warning", "error", "critical"]),
            help="Logs go to standard error; debug also shows tracebacks.",
            **_KEPT,
        ),
    ]


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    session = context.obj
    assert isinstance(session, Session), "the command line begins with a session"
    if value is None or value is False or parameter.name is None:
        return
    context.obj = session.in_json() if parameter.name == "json" else session.under(parameter.name, value)
    if parameter.name == "log_level":
        # behind a subcommand the logs are set up already
        logging.getLogger().setLevel(str(value).upper())


_KEPT: Final[dict[str, Any]] = {"expose_value": False, "callback": _keep}

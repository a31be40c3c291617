"""The command ``imgproc`` itself: global options, its subcommands, and how errors look."""

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from imgproc_app.cli.output import Output
from imgproc_app.cli.session import INTERRUPTED, Session
from imgproc_app.observability import configure_logging

log = logging.getLogger(__name__)

_FAILED: Final = 2

_COMMANDS: Final = {
    "serve": "Run the API and a worker in one process.",
    "worker": "Run a worker alone.",
    "migrate": "Bring the database to this version's schema.",
    "import": "Import the pictures of a folder and process them.",
    "search": "Find pictures by what they mean.",
    "status": "Show what is queued, running, done and stuck.",
    "retry": "Process pictures again that did not succeed.",
    "doctor": "Check that everything imgproc needs is there.",
    "demo": "See it work on sample pictures, or your own.",
}


class _Commands(click.Group):
    """Loads a subcommand's module when it is called: ``--help`` waits for no model, server or database package."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"imgproc_app.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where everything is kept.")
@click.option("--dsn", help="A PostgreSQL database, in place of the embedded one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    help="Logs go to standard error; debug also shows tracebacks.",
)
@click.version_option(package_name="imgproc", prog_name="imgproc")
@click.pass_context
def root(
    context: click.Context, data_dir: Path | None, dsn: str | None, log_level: str | None, *, as_json: bool
) -> None:
    """Upload a picture, find it by describing what it means.

    Every option can also be set in the environment, as IMGPROC_DATA_DIR, IMGPROC_DSN, IMGPROC_PORT and so on.
    """
    given = {"data_dir": data_dir, "dsn": dsn, "log_level": log_level}
    context.obj = Session(Output.create(as_json=as_json), given)
    configure_logging(context.obj.settings().log_level)


def main() -> NoReturn:
    """Run the command line of this process and exit.

    Exit codes: 0 done, 1 done but not everything is well (each command says what), 2 an error, 130 interrupted.
    """
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    output = Output.create(as_json="--json" in arguments)
    try:
        result = root.main(arguments, prog_name="imgproc", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has left; the interpreter must not complain when it flushes the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from imgproc_app.cli.problems import explain  # noqa: PLC0415 - knows errors of heavy packages

        log.debug("the command failed", exc_info=error)
        output.error(*explain(error))
        return _FAILED
    return result if isinstance(result, int) else 0

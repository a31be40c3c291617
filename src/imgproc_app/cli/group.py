"""The command ``imgproc`` itself: global options, its subcommands, and how errors look."""

import importlib
import io
import logging
import os
import sys
from difflib import get_close_matches
from typing import Final, NoReturn

import click
from attrs import evolve

from imgproc_app.cli.options import global_options, wants_json
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
    "similar": "Find pictures that look alike.",
    "status": "Show what is queued, running, done and stuck.",
    "retry": "Process pictures again that did not succeed.",
    "unknown": "Look at calls of which nobody knows the outcome, and close them.",
    "backfill": "Bring pictures that are there into search, and change its text model.",
    "generation": "Copy the search index, for a way back.",
    "index": "Give large scopes an index of their own.",
    "prune": "Delete history that nobody decides on any more.",
    "check-invariants": "Check that the stored rows keep every promise of the domain.",
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
        command: click.Command = importlib.import_module(_module_of(cmd_name)).command
        known = {parameter.name for parameter in command.params}
        command.params += [option for option in global_options() if option.name not in known]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, _COMMANDS)
            meant = f" Did you mean {' or '.join(repr(command) for command in near)}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _module_of(cmd_name: str) -> str:
    return f"imgproc_app.cli.{cmd_name.replace('-', '_')}_command"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="imgproc", prog_name="imgproc")
@click.pass_context
def root(context: click.Context) -> None:
    """Upload a picture, find it by describing what it means.

    The options stand before or behind the command. Each can also be set in the environment, as IMGPROC_DATA_DIR,
    IMGPROC_DSN, IMGPROC_PORT, IMGPROC_JSON and so on.

    With --json a command prints one JSON document; 'import', 'retry' and 'status --watch' print one a line. An error
    is a document with "error" and "message".
    """
    configure_logging(context.obj.settings().log_level)


root.params[:0] = global_options()


def main() -> NoReturn:
    """Run the command line of this process and exit.

    Exit codes: 0 done, 1 done but not everything is well (each command says what), 2 an error, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a name shows what it can
            stream.reconfigure(errors="replace")
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    # which output is wanted must be known even if the options cannot be understood
    output = Output.create(as_json=wants_json(arguments, os.environ))
    session = Session(evolve(output, as_json=wants_json((), os.environ)), {})
    try:
        result = root.main(arguments, prog_name="imgproc", standalone_mode=False, obj=session)
    except click.ClickException as error:
        error.show()
        if output.as_json:
            output.document({"error": "usage_error", "message": error.format_message()})
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

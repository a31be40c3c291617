"""``imgproc migrate``: bring a database to this version's schema."""

import click
from alembic.script import ScriptDirectory

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_app.cli.session import Session
from imgproc_app.lifecycle import check_dsn, make_private


@click.command("migrate")
@click.option("--revision", help="Go back to this revision ('base': an empty database), losing what came later.")
@click.option("--yes", is_flag=True, help="Do not ask before going back.")
@click.pass_obj
def command(session: Session, revision: str | None, *, yes: bool) -> int:
    """Bring the database to this version's schema, all or nothing. Does nothing when it is current.

    Exit code 1 if the question was answered with no.
    """
    settings = session.settings()
    back_to = None if revision == migrate.head() else revision
    if back_to is not None:
        _check(back_to)
        if not yes and not _agreed(back_to):
            session.output.note("nothing was changed")
            return 1
    if settings.dsn is not None:
        check_dsn(settings.dsn)
        _migrate(session, settings.dsn, back_to)
    else:
        make_private(settings.data_dir)
        with EmbeddedPostgres(settings.cluster_dir) as server:
            _migrate(session, server.dsn(), back_to)
    return 0


def _check(revision: str) -> None:
    """Raise `BadParameter` unless there is this revision to go back to."""
    known = [script.revision for script in ScriptDirectory(str(migrate.location())).walk_revisions()]
    if revision not in (*known, "base"):
        listed = ", ".join(("base", *reversed(known)))
        raise click.BadParameter(f"there is no revision {revision!r}, only {listed}", param_hint="--revision")


def _agreed(revision: str) -> bool:
    """Ask a person; raises `UsageError` where there is nobody to ask."""
    try:
        return click.confirm(f"going back to {revision} drops data of later revisions; go on?", err=True)
    except click.Abort as abort:
        # click says the same for the end of the input as for Ctrl-C
        if isinstance(abort.__context__, EOFError):
            click.echo(err=True)
            raise click.UsageError("there is nobody to ask: use --yes to go back without a question") from abort
        raise


def _migrate(session: Session, dsn: str, back_to: str | None) -> None:
    before = migrate.current(dsn)
    if back_to is None:
        migrate.upgrade(dsn)
    else:
        migrate.downgrade(dsn, back_to)
    after = migrate.current(dsn)
    if session.output.as_json:
        session.output.document({"before": before, "after": after, "changed": before != after})
    changed = f"from {before or 'empty'} to {after or 'empty'}" if before != after else f"at {after or 'empty'} already"
    session.output.say(f"the database is {changed}" if before == after else f"migrated {changed}")

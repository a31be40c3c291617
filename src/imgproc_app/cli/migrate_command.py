"""``imgproc migrate``: bring a database to this version's schema."""

import click
from alembic.util import CommandError

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_app.cli.session import Session
from imgproc_app.lifecycle import check_dsn, make_private


@click.command("migrate")
@click.option("--revision", help="Go back to this revision ('base': an empty database), losing what came later.")
@click.option("--yes", is_flag=True, help="Do not ask before going back.")
@click.pass_obj
def command(session: Session, revision: str | None, *, yes: bool) -> int:
    """Bring the database to this version's schema, all or nothing. Does nothing when it is current."""
    settings = session.settings()
    back = revision is not None and revision != migrate.head()
    if back and not yes:
        click.confirm(f"going back to {revision} drops data of later revisions; go on?", abort=True, err=True)
    if settings.dsn is not None:
        check_dsn(settings.dsn)
        _migrate(session, settings.dsn, revision if back else None)
    else:
        make_private(settings.data_dir)
        with EmbeddedPostgres(settings.cluster_dir) as server:
            _migrate(session, server.dsn(), revision if back else None)
    return 0


def _migrate(session: Session, dsn: str, back_to: str | None) -> None:
    before = migrate.current(dsn)
    if back_to is None:
        migrate.upgrade(dsn)
    else:
        try:
            migrate.downgrade(dsn, back_to)
        except CommandError as error:
            message = f"there is no revision {back_to!r} to go back to"
            raise click.BadParameter(message, param_hint="--revision") from error
    after = migrate.current(dsn)
    if session.output.as_json:
        session.output.document({"before": before, "after": after, "changed": before != after})
    changed = f"from {before or 'empty'} to {after or 'empty'}" if before != after else f"at {after or 'empty'} already"
    session.output.say(f"the database is {changed}" if before == after else f"migrated {changed}")

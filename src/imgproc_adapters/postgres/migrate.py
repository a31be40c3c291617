"""Bring a database to this version's schema, from a command line or from a host's own start-up.

Every function opens its own short-lived connection and blocks: call them from a thread in async code. The revision
is kept in a table of our own, so that a host's Alembic in the same database is left alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from imgproc_adapters.postgres.conninfo import connect_blocking
from imgproc_adapters.postgres.errors import translate
from imgproc_domain.errors import ImgprocError

VERSION_TABLE: Final = "imgproc_alembic_version"

_EXTENSIONS: Final = (
    ("vector", "pgvector", "pgvector 0.8 or newer"),
    ("btree_gin", "btree_gin", "PostgreSQL's own additional modules (contrib)"),
)

# any fixed number, the same in every version: whoever migrates holds this lock until its transaction ends
_LOCK: Final = 0x696D_6770_726F_63


class MigrationFailed(ImgprocError):
    """The database cannot be brought to this version's schema; the message says what to do."""

    code = "migration_failed"


def upgrade(dsn: str) -> None:
    """Create or update the schema, all or nothing. Does nothing if it is current; safe to call at once by several.

    Raises:
        MigrationFailed: an extension cannot be created, or the database has a revision that this version does not know.
        DatabaseUnavailable: the database did not answer.
    """
    with _connection(dsn) as connection:
        if _current(connection) != head():
            connection.rollback()
            _lock(connection)
            _require_extensions(connection)
            _check_known(_current(connection))
            command.upgrade(_config(connection), "head")
            connection.commit()


def downgrade(dsn: str, revision: str) -> None:
    """Go back to ``revision`` (``base``: none of our tables), dropping what came later with its data.

    Raises as `upgrade`.
    """
    with _connection(dsn) as connection:
        _lock(connection)
        _check_known(_current(connection))
        command.downgrade(_config(connection), revision)
        connection.commit()


def current(dsn: str) -> str | None:
    """Return the database's revision; None if it has none of our tables. Raises `DatabaseUnavailable`."""
    with _connection(dsn) as connection:
        return _current(connection)


def head() -> str:
    """Return the revision this version of imgproc wants."""
    revision = _scripts().get_current_head()
    assert revision is not None, "a release has at least one revision"
    return revision


def location() -> Path:
    """Return the folder of revisions: beside this module when installed, at the top of a source tree otherwise."""
    here = Path(__file__).resolve()
    installed = here.with_name("migrations")
    return installed if installed.is_dir() else here.parents[3] / "migrations"


@contextmanager
def _connection(dsn: str) -> Iterator[Connection]:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect_blocking(dsn), poolclass=NullPool, use_native_hstore=False
    )
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise translate(error.orig or error) from error


def _lock(connection: Connection) -> None:
    """Wait for any other migration. Bound to the transaction, so that it also works behind a pooler."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _check_known(revision: str | None) -> None:
    if revision is not None and revision not in {script.revision for script in _scripts().walk_revisions()}:
        message = (
            f"the database has schema revision {revision}, which this version of imgproc does not know: update imgproc"
        )
        raise MigrationFailed(message)


def _require_extensions(connection: Connection) -> None:
    """Make sure of extensions before anything else, because their absence is what most often goes wrong."""
    for name, title, where in _EXTENSIONS:
        try:
            with connection.begin_nested():
                connection.execute(text(f"CREATE EXTENSION IF NOT EXISTS {name}"))
        except DBAPIError as error:
            message = (
                f"{title} is not in this database and could not be created: install {where} on the server"
                f" and let a superuser run CREATE EXTENSION {name} in this database ({error.orig})"
            )
            raise MigrationFailed(message) from error


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(location()))


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(location()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config

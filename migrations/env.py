"""Runs the revisions on the connection it is given: see `imgproc_adapters.postgres.migrate`."""

from alembic import context
from sqlalchemy import Connection

from imgproc_adapters.postgres.migrate import VERSION_TABLE
from imgproc_adapters.postgres.tables import METADATA


def run(connection: Connection) -> None:
    """Run inside the caller's transaction, which also holds the lock against a second process."""
    context.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
    context.run_migrations()


run(context.config.attributes["connection"])

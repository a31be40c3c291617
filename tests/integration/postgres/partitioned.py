"""The schema once more, every table that has scopes cut into hash partitions: what a very large installation may do.

It is made from the very metadata that the migrations are checked against. What a partitioned table cannot have itself,
its storage parameters, its partitions have.
"""

from collections.abc import Iterator
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, MetaData, Table, create_engine, text
from sqlalchemy.pool import NullPool

from imgproc_adapters.postgres.migrate import VERSION_TABLE, head
from imgproc_adapters.postgres.tables import METADATA, VECTOR_TABLES

PARTITIONS: Final = 4
REFERENCE_TABLES: Final = frozenset({"lane_slots", "embedding_spaces", "processing_configuration"})
"""Tables without a scope of their own: one whole copy each, on every node where there are several."""

PARTITIONED: Final = tuple(name for name in METADATA.tables if name not in REFERENCE_TABLES)


def create_partitioned(dsn: str) -> None:
    """Create all tables in an empty database that has pgvector, at the revision that this version wants."""
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)
    metadata = MetaData()
    options = {table.name: _cut(table, metadata) for table in METADATA.sorted_tables}
    with engine.begin() as connection:
        _run(connection, ["CREATE EXTENSION IF NOT EXISTS btree_gin"])
        metadata.create_all(connection)
        for name in PARTITIONED:
            _run(connection, _partitions(name, options[name]))
        for name in VECTOR_TABLES:
            _run(connection, [f"ALTER TABLE {name} ALTER COLUMN embedding SET STORAGE PLAIN"])
        _run(connection, [f"CREATE TABLE {VERSION_TABLE} (version_num varchar(32) PRIMARY KEY)"])
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:revision)"), {"revision": head()})
    engine.dispose()


def _cut(table: Table, metadata: MetaData) -> dict[str, Any]:
    """Copy a table, partitioned by its scope, and return the storage parameters it had."""
    copy = table.to_metadata(metadata)
    settings = copy.dialect_options["postgresql"]
    found: dict[str, Any] = settings["with"] or {}
    if table.name in PARTITIONED:
        settings["with"], settings["partition_by"] = None, "HASH (scope_id)"
    return found


def _partitions(name: str, options: dict[str, Any]) -> Iterator[str]:
    having = ", ".join(f"{option} = {value}" for option, value in options.items())
    for number in range(PARTITIONS):
        yield (
            f"CREATE TABLE {name}_{number} PARTITION OF {name}"
            f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})" + (f" WITH ({having})" if having else "")
        )
    yield f"ALTER TABLE {name} ALTER COLUMN scope_id SET STATISTICS 0"


def _run(connection: Connection, statements: Iterator[str] | list[str]) -> None:
    for statement in statements:
        connection.execute(text(statement))

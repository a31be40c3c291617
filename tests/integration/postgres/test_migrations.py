"""The schema comes and goes whole, once, whoever starts first."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.migrate import MigrationFailed
from imgproc_adapters.postgres.tables import METADATA
from imgproc_domain.errors import DatabaseUnavailable

PATIENCE = 60

TABLES = """
    SELECT relname, (SELECT array_agg(option ORDER BY option) FROM unnest(reloptions) AS option)
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""
COLUMNS = """
    SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage,
           a.attstattarget, a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
"""
CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND contype <> 'n' AND conrelid <> 0
"""
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"


def schema(dsn: str) -> dict[str, set[tuple[str, ...]]]:
    """Everything the catalog says about our tables, as text."""
    with psycopg.connect(dsn) as connection:
        queries = {"tables": TABLES, "columns": COLUMNS, "constraints": CONSTRAINTS, "indexes": INDEXES}
        found = {name: connection.execute(query.encode()).fetchall() for name, query in queries.items()}
    return {
        name: {tuple(map(str, row)) for row in rows if row[0] != migrate.VERSION_TABLE} for name, rows in found.items()
    }


def execute(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_up_down_and_up_again(empty_database: str) -> None:
    assert migrate.current(empty_database) is None
    migrate.upgrade(empty_database)
    first = schema(empty_database)
    assert migrate.current(empty_database) == migrate.head()
    migrate.downgrade(empty_database, "base")
    assert migrate.current(empty_database) is None
    assert not schema(empty_database)["tables"]
    migrate.upgrade(empty_database)
    assert schema(empty_database) == first


def test_a_migrated_schema_is_the_one_the_tables_describe(database: str, empty_database: str) -> None:
    execute(empty_database, "CREATE EXTENSION btree_gin")
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(empty_database))
    METADATA.create_all(engine)
    engine.dispose()
    described, migrated = schema(empty_database), schema(database)
    for part, rows in migrated.items():
        assert rows == described[part], part


def test_processes_that_start_at_once_do_not_collide(empty_database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for started in [pool.submit(migrate.upgrade, empty_database) for _ in range(4)]:
            started.result(PATIENCE)
    assert migrate.current(empty_database) == migrate.head()


def test_a_current_database_is_left_alone_without_waiting_for_anybody(database: str) -> None:
    with psycopg.connect(database) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [migrate._LOCK])
        pool.submit(migrate.upgrade, database).result(PATIENCE)


def test_a_failing_migration_leaves_nothing_behind(empty_database: str) -> None:
    execute(empty_database, "CREATE TABLE tasks (somebody_elses integer)")
    with pytest.raises(Exception, match="already exists"):
        migrate.upgrade(empty_database)
    assert {name for name, _ in schema(empty_database)["tables"]} == {"tasks"}


def test_a_database_of_a_later_version_is_refused(database: str) -> None:
    execute(database, f"UPDATE {migrate.VERSION_TABLE} SET version_num = 'later'")
    with pytest.raises(MigrationFailed, match="update imgproc"):
        migrate.upgrade(database)


@pytest.mark.parametrize("extension", ["vector", "btree_gin"])
def test_a_database_without_an_extension_is_told_what_to_do(empty_database: str, extension: str) -> None:
    execute(empty_database, f"DROP EXTENSION IF EXISTS {extension}")
    role = f"nobody_{uuid4().hex[:12]}"
    execute(empty_database, f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    try:
        with pytest.raises(MigrationFailed, match=f"CREATE EXTENSION {extension}") as refused:
            migrate.upgrade(make_conninfo(empty_database, user=role, password="secret"))
        assert "secret" not in str(refused.value)
    finally:
        execute(empty_database, f"DROP ROLE {role}")


def test_a_database_that_is_not_there_is_unavailable(database: str) -> None:
    nowhere = make_conninfo(database, dbname="no_such_database")
    with pytest.raises(DatabaseUnavailable, match="no_such_database"):
        migrate.current(nowhere)

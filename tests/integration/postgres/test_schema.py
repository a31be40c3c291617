"""The rules of the schema, read from the catalog: who adds a table that breaks one is told here."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.integration.postgres.partitioned import REFERENCE_TABLES

from imgproc_adapters.postgres.migrate import VERSION_TABLE
from imgproc_adapters.postgres.tables import METADATA, VECTOR_TABLES
from imgproc_domain.stage import TaskType

LEASE_COLUMNS = {"lease_owner", "lease_expires_at", "claim_generation"}

EXACT_KEYS = {
    ("image_processing_jobs", "scope_id,meme_id,revision", "(meme_id IS NOT NULL)"),
    ("image_processing_jobs", "scope_id,meme_id", "(status = ANY (ARRAY['queued'::text, 'running'::text]))"),
    (
        "tasks",
        "scope_id,meme_id,image_sha256,task_type,config_fingerprint,reverse_image_policy",
        "((status = ANY (ARRAY['queued'::text, 'running'::text])) AND (meme_id IS NOT NULL))",
    ),
    ("image_processing_stages", "scope_id,job_id,stage", None),
    ("task_attempts", "scope_id,task_id,attempt_no", None),
    ("task_attempts", "scope_id,attempt_id", "(attempt_no >= 1)"),
    ("operation_grants", "scope_id,operation,logical_request_key", "(length(fingerprint) > 0)"),
    ("text_embeddings", "scope_id,meme_id,image_sha256,metadata_hash,embedding_model_version", None),
    ("memes", "scope_id,image_sha256", "(deleted_at IS NULL)"),
    ("search_vectors", "scope_id,space_id,meme_id", None),
}

INDEX_COLUMNS = """
    SELECT c.relname, i.relname, x.indisunique, pg_get_expr(x.indpred, x.indrelid),
           array(SELECT pg_get_indexdef(x.indexrelid, n, true) FROM generate_series(1, x.indnkeyatts) n)
    FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> %s
"""
FOREIGN_KEYS = """
    SELECT conname, conrelid::regclass::text,
           array(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY k (n, i)
                 JOIN pg_attribute ON attrelid = conrelid AND attnum = n ORDER BY i),
           array(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY k (n, i)
                 JOIN pg_attribute ON attrelid = confrelid AND attnum = n ORDER BY i)
    FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
"""


@pytest.fixture
def catalog(database: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(database) as connection:
        yield connection


def test_scope_leads_every_index_and_every_key(catalog: psycopg.Connection[Any]) -> None:
    found = catalog.execute(INDEX_COLUMNS, [VERSION_TABLE]).fetchall()
    assert {table for table, *_ in found} == set(METADATA.tables)
    for table, index, _, _, columns in found:
        assert table in REFERENCE_TABLES or columns[0] == "scope_id", index


def test_a_key_that_only_some_queries_may_use_holds_for_every_row(catalog: psycopg.Connection[Any]) -> None:
    checks = {
        rule
        for (rule,) in catalog.execute("SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE contype = 'c'")
    }
    assert checks >= {"(revision >= 1)", "(attempt_no >= 1)", "(length(fingerprint) > 0)"}


def test_no_other_whole_index_competes_with_a_primary_key(catalog: psycopg.Connection[Any]) -> None:
    whole = [
        table for table, *_, where, _ in catalog.execute(INDEX_COLUMNS, [VERSION_TABLE]).fetchall() if where is None
    ]
    assert sorted(whole) == sorted([*METADATA.tables, "cache_generations"])


def test_every_reference_stays_within_its_scope(catalog: psycopg.Connection[Any]) -> None:
    found = catalog.execute(FOREIGN_KEYS).fetchall()
    # tasks and grants are written with the job they name, under its lock: nothing looks it up again row by row
    roots = {"scopes", "tasks", "operation_grants"}
    assert {table for _, table, _, _ in found} == set(METADATA.tables) - REFERENCE_TABLES - roots
    for name, _, columns, targets in found:
        assert (columns[0], targets[0]) == ("scope_id", "scope_id"), name


def test_reference_tables_stand_alone(catalog: psycopg.Connection[Any]) -> None:
    """Where scopes are spread over servers every one of them has a copy, so that nothing may hang on a row of them."""
    referring = catalog.execute(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
    ).fetchall()
    assert referring
    assert set(METADATA.tables) >= REFERENCE_TABLES
    assert not [pair for pair in referring if REFERENCE_TABLES & set(pair)]


def test_nothing_is_excluded_by_a_constraint_and_no_key_waits_for_the_commit(catalog: psycopg.Connection[Any]) -> None:
    """A partitioned table takes no EXCLUDE without its key, and ON CONFLICT no key that is checked at the commit."""
    found = catalog.execute("SELECT contype::text, condeferrable FROM pg_constraint WHERE contype IN ('p', 'u', 'x')")
    kinds = {(kind, deferrable) for kind, deferrable in found.fetchall()}
    assert kinds == {("p", False), ("u", False)}


def test_no_value_is_made_by_the_server(catalog: psycopg.Connection[Any]) -> None:
    """No default, no identity and no generated column: what a row holds is the same wherever it is written."""
    columns = catalog.execute(
        "SELECT attrelid::regclass::text, attname::text, atthasdef, attidentity::text, attgenerated::text"
        " FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
        " WHERE attnum > 0 AND relkind = 'r' AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    assert len(columns) > 100
    assert not [column for column in columns if column[2:] != (False, "", "")]


def test_every_scope_is_compared_alike(catalog: psycopg.Connection[Any]) -> None:
    """Hash partitions, and shards that are to stand together, need one type and one collation of their key."""
    found = catalog.execute(
        "SELECT DISTINCT atttypid::regtype::text, collname::text, attnotnull FROM pg_attribute"
        " JOIN pg_class c ON c.oid = attrelid JOIN pg_collation o ON o.oid = attcollation"
        " WHERE attname = 'scope_id' AND relkind = 'r' AND relnamespace = 'public'::regnamespace"
        " AND relname <> ALL (%s)",
        [sorted(REFERENCE_TABLES)],
    ).fetchall()
    assert found == [("text", "C", True)]


def test_the_exact_unique_keys_are_there(catalog: psycopg.Connection[Any]) -> None:
    found = catalog.execute(INDEX_COLUMNS, [VERSION_TABLE]).fetchall()
    unique = {(table, ",".join(columns), where) for table, _, is_unique, where, columns in found if is_unique}
    assert unique >= EXACT_KEYS


def test_no_index_knows_a_lease(catalog: psycopg.Connection[Any]) -> None:
    for _, index, _, where, columns in catalog.execute(INDEX_COLUMNS, [VERSION_TABLE]).fetchall():
        assert not LEASE_COLUMNS & set(columns), index
        assert "lease" not in (where or ""), index


def test_every_task_type_has_a_queue_of_its_own(catalog: psycopg.Connection[Any]) -> None:
    found = catalog.execute(INDEX_COLUMNS, [VERSION_TABLE]).fetchall()
    queues = [
        (where, columns) for table, _, _, where, columns in found if table == "tasks" and "available_at" in columns
    ]
    assert {where for where, _ in queues} == {
        f"((status = 'queued'::text) AND (task_type = '{kind}'::text))" for kind in TaskType
    }
    assert all(columns == ["scope_id", "available_at", "task_id"] for _, columns in queues)


def test_there_are_no_triggers_sequences_or_rules(catalog: psycopg.Connection[Any]) -> None:
    assert not catalog.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").fetchall()
    assert not catalog.execute("SELECT relname FROM pg_class WHERE relkind = 'S'").fetchall()
    assert not catalog.execute("SELECT rulename FROM pg_rules WHERE schemaname = 'public'").fetchall()


def test_every_time_is_an_instant(catalog: psycopg.Connection[Any]) -> None:
    query = (
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE data_type = 'timestamp without time zone' AND table_schema = 'public'"
    )
    assert not catalog.execute(query).fetchall()


def test_every_status_is_checked(catalog: psycopg.Connection[Any]) -> None:
    columns = catalog.execute(
        "SELECT table_name::text FROM information_schema.columns"
        " WHERE column_name IN ('status', 'mode') AND table_schema = 'public'"
    ).fetchall()
    checked = catalog.execute(
        "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'c' AND conname ~ '_(status|mode)$'"
    ).fetchall()
    assert set(columns) == set(checked)


def test_vectors_stay_on_their_row(catalog: psycopg.Connection[Any]) -> None:
    found = catalog.execute(
        "SELECT attrelid::regclass::text, attstorage::text FROM pg_attribute WHERE attname = 'embedding' AND attnum > 0"
        " AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace)"
    ).fetchall()
    assert dict(found) == dict.fromkeys(VECTOR_TABLES, "p")

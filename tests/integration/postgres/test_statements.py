"""The rules that every statement keeps, so that tables can be cut by scope: into partitions, or over servers."""

import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from tests.integration.postgres.partitioned import PARTITIONED
from tests.integration.postgres.statements import FORMS, Found, all_statements, kept_by_source, made_when_asked

from imgproc_adapters.postgres.tables import METADATA

OVER_ALL_SCOPES: Final = {
    "dispatch._READY",
    "dispatch._DUE",
    "dispatch._EXPIRED",
    "dispatch._RELEASES",
    "dispatch._QUEUED",
    "scopes._BEHIND",
}
"""What finds the scopes that have work; it reads one entry a scope and writes nothing."""

_MENTION: Final = re.compile(
    rf"\b(?P<verb>FROM|JOIN|UPDATE|INTO) +(?P<table>{'|'.join(PARTITIONED)})\b(?: +(?:AS +)?(?P<alias>[a-z_]+)\b)?"
)
_COMMA: Final = re.compile(rf"\b(?:FROM|,) *[a-z_]+(?: +[a-z]+)?, *(?:{'|'.join(PARTITIONED)})\b")
_WRITTEN: Final = re.compile(r"\b(?:UPDATE|INTO) +(?!SET\b)([a-z_]+)")
_ASSIGNED: Final = re.compile(r"\bSET (?P<what>.*?)(?=\bFROM\b|\bWHERE\b|\bRETURNING\b|\Z)", re.DOTALL)
_COLUMN: Final = re.compile(r"(?:\A|,)\s*([a-z_0-9]+) =")
_CALL: Final = re.compile(r"\b([a-z_0-9]+)\(")
_NO_ALIAS: Final = {"on", "set", "where", "order", "select", "as", "cross", "join", "group", "limit", "for"}


@pytest.fixture(scope="module")
def statements() -> list[Found]:
    return list(all_statements())


def unscoped(found: Found) -> Iterator[str]:
    """Yield every table of a statement that nothing binds to the scope."""
    for mention in _MENTION.finditer(found.sql):
        table, alias = mention["table"], (mention["alias"] or "").lower()
        behind = found.sql[mention.end("table") :]
        if mention["verb"] == "INTO":
            if not re.match(r"(?: AS \w+)?\s*(?:\(\s*scope_id\b|VALUES|\Z)", behind) or "%(scope)s" not in behind:
                yield f"{found.name}: INSERT INTO {table}"
            continue
        name = rf"{alias}\." if alias and alias not in _NO_ALIAS else r"(?<![a-z_.])"
        if not re.search(rf"{name}scope_id = (?:%\(scope\)s|[a-z]+\.scope_id)", found.sql):
            yield f"{found.name}: {mention[0]}"


def test_every_statement_is_found(statements: list[Found]) -> None:
    assert made_when_asked() == set(FORMS)
    kept = {found.name for found in statements} - set(FORMS)
    assert len(kept) >= kept_by_source() > 50


def test_every_statement_stays_within_its_scope(statements: list[Found]) -> None:
    crossing = {found.name for found in statements if any(unscoped(found))}
    assert crossing == OVER_ALL_SCOPES
    assert not [found.name for found in statements if _COMMA.search(found.sql)]


def test_what_looks_over_all_scopes_writes_nothing(statements: list[Found]) -> None:
    looking = [found for found in statements if found.name in OVER_ALL_SCOPES]
    assert len(looking) >= len(OVER_ALL_SCOPES)
    assert not [found.name for found in looking if found.writes or "FOR NO KEY" in found.sql]


def keys_set(found: Found) -> Iterator[str]:
    """Yield every column of a primary key that a statement assigns to."""
    for assignment in _ASSIGNED.finditer(found.sql):
        *_, table = _WRITTEN.findall(found.sql[: assignment.start()])
        keys = {column.name for column in METADATA.tables[table].primary_key}
        yield from (f"{found.name}: {column}" for column in _COLUMN.findall(assignment["what"]) if column in keys)


def test_no_key_is_ever_changed(statements: list[Found]) -> None:
    """An UPDATE of the scope would move a row to another partition, which no lock and no foreign key follows."""
    assert sum(_ASSIGNED.search(found.sql) is not None for found in statements) > 20
    assert not [key for found in statements for key in keys_set(found)]
    assert list(keys_set(Found("probe", "UPDATE tasks t SET status = 'x', scope_id = 'y' WHERE true")))


def test_nothing_is_written_by_a_volatile_function(statements: list[Found], database: str) -> None:
    with psycopg.connect(database) as connection:
        volatile = {name for (name,) in connection.execute("SELECT proname FROM pg_proc WHERE provolatile = 'v'")}
    writing = [found for found in statements if found.writes]
    assert len(writing) > 20
    called = {name: found.name for found in statements for name in _CALL.findall(found.sql.lower())}
    assert {"statement_timestamp", "unnest", "pg_notify"} <= called.keys()
    assert {"statement_timestamp", "now", "unnest"}.isdisjoint(volatile)
    assert "random" in volatile
    bad = [(found.name, name) for found in writing for name in _CALL.findall(found.sql.lower()) if name in volatile]
    assert bad == []


def test_nothing_but_rows_is_locked(statements: list[Found]) -> None:
    """A lock of a table holds up every scope, and an advisory one is known to a single server."""
    assert any("FOR NO KEY UPDATE" in found.sql for found in statements)
    locking = {f.name for f in statements if re.search(r"\bLOCK +(?:TABLE|[a-z])|advisory", f.sql)}
    # an index is built on one server, and nobody but who builds another one waits for it
    assert locking == {"search_indexes._TRY_LOCK"}


def test_a_statement_that_crosses_scopes_is_seen() -> None:
    def sees(sql: str) -> Any:
        return list(unscoped(Found("probe", sql)))

    assert sees("SELECT FROM tasks t WHERE t.task_id = ANY (%(ids)s)")
    assert sees("UPDATE tasks t SET status = 'x' FROM n WHERE t.task_id = n.task_id AND n.scope_id = %(scope)s")
    assert sees("INSERT INTO tasks (task_id, scope_id) SELECT 1, %(scope)s")
    assert sees("SELECT FROM memes m JOIN tasks t ON t.meme_id = m.meme_id WHERE m.scope_id = %(scope)s")
    assert not sees("SELECT FROM memes m JOIN tasks t ON t.scope_id = m.scope_id WHERE m.scope_id = %(scope)s")
    assert not sees("DELETE FROM memes WHERE scope_id = %(scope)s")

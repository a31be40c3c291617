"""Checks that every row is within its scope (I1), and that the schema which sees to that is whole.

A database that was restored without its constraints, or loaded with its triggers off, is found out here. The
statements are made from the tables' own description, so that a new table is checked from its first day on.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from sqlalchemy import CheckConstraint, Constraint, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table

from imgproc_adapters.postgres.invariants_check import SCOPED, Check
from imgproc_adapters.postgres.tables import METADATA


def _key_of(table: Table) -> str:
    columns = [column.name for column in table.primary_key.columns if column.name != "scope_id"]
    return f"concat_ws('/', {', '.join(f'child.{name}' for name in columns)})"


def _dangling(table: Table, key: ForeignKeyConstraint) -> str:
    """Return a SELECT of the rows whose reference within the scope leads nowhere."""
    (column,) = (name for name in key.column_keys if name != "scope_id")
    (target,) = (element.column.name for element in key.elements if element.column.name != "scope_id")
    return f"""
        SELECT '{table.name} ' || {_key_of(table)}, '{column} ' || child.{column} || ' is not in this scope'
        FROM {{{table.name}}} child WHERE child.{column} IS NOT NULL AND NOT EXISTS (
            SELECT FROM {{{key.referred_table.name}}} parent WHERE parent.{target} = child.{column}
        )
    """  # noqa: S608 - names of our own tables


def _references() -> Iterator[str]:
    for table in METADATA.sorted_tables:
        for key in sorted(table.foreign_key_constraints, key=lambda key: str(key.name)):
            if len(key.column_keys) > 1:
                yield _dangling(table, key)


def _strays(table: str) -> str:
    """Return a SELECT that hops from scope to scope along the table's keys and keeps those that nobody knows."""
    return f"""
        SELECT '{table} of scope ' || hop.scope_id, 'there is no such scope' FROM (
            WITH RECURSIVE each (scope_id) AS (
                (SELECT scope_id FROM {table} WHERE scope_id IS NOT NULL ORDER BY scope_id LIMIT 1)
                UNION ALL
                SELECT (SELECT t.scope_id FROM {table} t WHERE t.scope_id > each.scope_id ORDER BY t.scope_id LIMIT 1)
                FROM each WHERE each.scope_id IS NOT NULL
            ) SELECT scope_id FROM each WHERE scope_id IS NOT NULL
        ) hop WHERE NOT EXISTS (SELECT FROM scopes s WHERE s.scope_id = hop.scope_id)
    """  # noqa: S608 - names of our own tables


def _constraint(table: Table, found: Constraint) -> Mapping[str, object]:
    columns, targets, target = None, None, None
    match found:
        case CheckConstraint():
            kind = "c"
        case ForeignKeyConstraint():
            kind, columns = "f", list(found.column_keys)
            target, targets = found.referred_table.name, [element.column.name for element in found.elements]
        case PrimaryKeyConstraint():
            kind, columns = "p", [column.name for column in found.columns]
        case _:
            kind, columns = "u", [column.name for column in getattr(found, "columns", ())]
    return {
        "name": found.name,
        "child": table.name,
        "kind": kind,
        "columns": columns,
        "parent": target,
        "targets": targets,
    }


def _columns(index: Index) -> list[str]:
    """Return what an index is of, and behind it what it only carries along."""
    return [*index.columns.keys(), *(index.dialect_options["postgresql"]["include"] or ())]


def _literal(rows: Iterator[Mapping[str, object]]) -> str:
    """Return rows as a literal of JSON within a template whose braces, and whose parameters, stay as they are."""
    text = json.dumps(list(rows)).replace("'", "''")
    return "'" + text.replace("{", "{{").replace("}", "}}").replace("%", "%%") + "'::jsonb"


_CONSTRAINTS: Final = _literal(
    _constraint(table, found)
    for table in METADATA.sorted_tables
    for found in sorted(table.constraints, key=lambda found: str(found.name))
)
_INDEXES: Final = _literal(
    {"name": index.name, "child": table.name, "uniq": index.unique, "columns": _columns(index)}
    for table in METADATA.sorted_tables
    for index in sorted(table.indexes, key=lambda index: str(index.name))
)

_NAMES: Final = """ARRAY(
    SELECT a.attname::text FROM unnest({numbers}) WITH ORDINALITY k (number, place)
        JOIN pg_attribute a ON a.attrelid = {relation} AND a.attnum = k.number ORDER BY k.place
)"""

CATALOG: Final = (
    Check(
        invariant="I1",
        name="constraints",
        sentence="every key, reference and rule of the schema is there, validated, and enforced",
        sql=f"""
            SELECT wanted.child || ' ' || wanted.name, CASE
                WHEN c.oid IS NULL THEN 'is missing'
                WHEN NOT c.convalidated THEN 'was never validated'
                WHEN off.tgconstraint IS NOT NULL THEN 'is not enforced: its triggers are disabled'
                ELSE 'is another one than this version wants' END
            FROM jsonb_to_recordset({_CONSTRAINTS})
                AS wanted (name text, child text, kind text, columns text[], parent text, targets text[])
            LEFT JOIN pg_constraint c ON c.conname = wanted.name AND c.conrelid = to_regclass(wanted.child)
            LEFT JOIN (SELECT DISTINCT tgconstraint FROM pg_trigger WHERE tgenabled IN ('D', 'R')) off
                ON off.tgconstraint = c.oid
            WHERE c.oid IS NULL OR NOT c.convalidated OR off.tgconstraint IS NOT NULL
               OR c.contype <> wanted.kind::"char" OR (wanted.columns IS NOT NULL
                   AND {_NAMES.format(numbers="c.conkey", relation="c.conrelid")} <> wanted.columns)
               OR (wanted.targets IS NOT NULL
                   AND (c.confrelid <> to_regclass(wanted.parent)
                        OR {_NAMES.format(numbers="c.confkey", relation="c.confrelid")} <> wanted.targets))
        """,  # noqa: S608 - what this version's tables say of themselves
        scoped=False,
        of_head=True,
    ),
    Check(
        invariant="I1",
        name="indexes",
        sentence="every index of the schema is there and in use, and the unique ones are unique",
        sql=f"""
            SELECT wanted.child || ' ' || wanted.name, CASE
                WHEN i.indexrelid IS NULL THEN 'is missing'
                WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'is invalid'
                ELSE 'is another one than this version wants' END
            FROM jsonb_to_recordset({_INDEXES}) AS wanted (name text, child text, uniq boolean, columns text[])
            LEFT JOIN (pg_index i JOIN pg_class c ON c.oid = i.indexrelid)
                ON c.relname = wanted.name AND i.indrelid = to_regclass(wanted.child)
            WHERE i.indexrelid IS NULL OR NOT (i.indisvalid AND i.indisready AND i.indislive)
               OR i.indisunique <> wanted.uniq
               OR {_NAMES.format(numbers="i.indkey::int2[]", relation="i.indrelid")} <> wanted.columns
        """,  # noqa: S608 - as above
        scoped=False,
        of_head=True,
    ),
    Check(
        invariant="I1",
        name="known-scopes",
        sentence="every row belongs to a scope that is there",
        sql=" UNION ALL ".join(_strays(table) for table in sorted(SCOPED - {"scopes"})),
        scoped=False,
        of_head=True,
    ),
    Check(
        invariant="I1",
        name="references",
        sentence="what a row refers to is in its scope",
        sql=" UNION ALL ".join(_references()),
    ),
)

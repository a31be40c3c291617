"""The vocabulary the tables are written in: column types, and constraints derived from the domain's enums."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.types import TypeEngine

MAX_DIMENSION: Final = 3_800
"""A half-precision vector of more dimensions does not fit on a page beside its key (it is never moved out of line)."""

KEY: Final = Text(collation="C")
"""Keys compare by code point: the order of scopes is Python's, whatever the database's locale."""

MOST_COVERED: Final = 1_100
COVERED: Final = f"dimension <= {MOST_COVERED}"
"""True of vectors that fit into an index entry beside their key: a query that says so may read the index alone."""

METADATA: Final = MetaData()


def quoted(values: Iterable[str]) -> str:
    """Return the values as a list of SQL literals. For identifiers of our own enums only."""
    return ", ".join(f"'{value}'" for value in values)


def one_of(values: Iterable[StrEnum]) -> str:
    return f"IN ({quoted(value.value for value in values)})"


def key(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, KEY, nullable=nullable)


def uuid(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, Uuid, nullable=nullable)


def time(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def embedding() -> Column[object]:
    """A column without a fixed dimension, so that vectors of several models live side by side."""
    halfvec: TypeEngine[object] = HALFVEC()
    return Column("embedding", halfvec, nullable=False)


def primary(table: str, *columns: str) -> PrimaryKeyConstraint:
    return PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def unique(table: str, what: str, *columns: str) -> UniqueConstraint:
    return UniqueConstraint(*columns, name=f"uq_{table}_{what}")


def index(
    table: str,
    what: str,
    *columns: str,
    where: str,
    unique: bool = False,
    using: str | None = None,
    include: Sequence[str] = (),
) -> Index:
    """A partial index: what is finished never shares an index with what is live."""
    return Index(
        f"{'uq' if unique else 'ix'}_{table}_{what}",
        *columns,
        unique=unique,
        postgresql_where=text(where),
        postgresql_using=using or "btree",
        postgresql_include=list(include),
    )


def aside(table: str, what: str, *columns: str, where: str) -> Index:
    """A unique key over all rows, which the planner takes only for queries that ask for it by ``where``.

    ``where`` is true of every row by a CHECK. Without it such a key competes with the primary key: while a table is
    new, or a scope is rare in the statistics, reading all of the scope's entries looks as cheap as finding one, and
    the check of a foreign key, planned once a session, then reads a whole scope for every row.
    """
    return index(table, what, *columns, where=where, unique=True)


def check(table: str, what: str, rule: str) -> CheckConstraint:
    return CheckConstraint(rule, name=f"ck_{table}_{what}")


def belongs_to_scope(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["scope_id"], ["scopes.scope_id"], name=f"fk_{table}_scope")


def refers(table: str, column: str, parent: str) -> ForeignKeyConstraint:
    """A reference within the scope. It costs a lock of the parent's row for every row that is written.

    What never refers to rows of its own transaction alone has none: see ADR 12.
    """
    target = {"memes": "meme_id", "image_processing_jobs": "job_id", "tasks": "task_id"}.get(parent, column)
    return ForeignKeyConstraint(
        ["scope_id", column],
        [f"{parent}.scope_id", f"{parent}.{target}"],
        name=f"fk_{table}_{column.removesuffix('_id')}",
    )


def sha256_check(table: str, column: str) -> CheckConstraint:
    # only the length: a CHECK runs at every write of a row, and matching the digits costs more than the write
    return check(table, column, f"octet_length({column}) = 64")


def vector_check(table: str) -> CheckConstraint:
    rule = f"dimension BETWEEN 1 AND {MAX_DIMENSION} AND vector_dims(embedding) = dimension"
    return check(table, "dimension", rule)


def diagnosis_checks(table: str) -> Sequence[CheckConstraint]:
    return (
        check(table, "error", "(error_code IS NULL) = (error_message IS NULL)"),
        check(table, "error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
    )


def lease_checks(table: str) -> Sequence[CheckConstraint]:
    return (
        check(table, "generation", "claim_generation >= 0"),
        check(table, "lease", "(lease_owner IS NULL) = (lease_expires_at IS NULL)"),
    )


def lease_columns() -> Sequence[Column[object]]:
    """Never indexed: a heartbeat must stay a heap-only update."""
    return (
        Column("claim_generation", Integer, nullable=False),
        Column("lease_owner", Text),
        time("lease_expires_at", nullable=True),
    )


def diagnosis_columns() -> Sequence[Column[str]]:
    return Column("error_code", Text), Column("error_message", Text)

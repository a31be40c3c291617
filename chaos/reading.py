"""What is left in the database, read in one snapshot."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import psycopg
from attrs import frozen

from imgproc_adapters.postgres import rows
from imgproc_adapters.postgres.conninfo import Limits, parameters
from imgproc_adapters.postgres.session import Row
from imgproc_adapters.testing.view import View
from imgproc_domain.ids import JobId, MemeId, Sha256
from imgproc_domain.lane import Slot
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, Stage
from imgproc_domain.vector import Vector

_NOTHING = Vector.unit([1.0])
_VISUAL = "meme_id, image_sha256, space_id"
_TEXT = "meme_id, image_sha256, metadata_hash, embedding_model_version"
_FINDABLE = "meme_id, image_sha256, metadata_hash, space_id"
_SLOTS = b"SELECT lane, number, scope_id, task_id, generation, free_at FROM lane_slots"
_PENDING = b"SELECT scope_id || ' ' || logical_request_key FROM grant_releases WHERE done_at IS NULL"
_RESERVED = b"""
    SELECT scope_id, logical_request_key, committed_at IS NOT NULL, returned_at IS NOT NULL
    FROM policy_reservations WHERE operation = 'analysis.agent'
"""


@frozen
class Reserved:
    """What the quota policy remembers of one logical request for an agent."""

    scope: Scope
    key: str
    committed: bool
    returned: bool


@frozen
class Left:
    """Everything that is left: a view of each scope, releases the policy was not told of, and its reservations."""

    views: Sequence[View]
    pending: Collection[str]
    reserved: Sequence[Reserved]


def connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(**parameters(dsn, Limits(connect=5, statement=60.0, idle_in_transaction=None)))


def read_left(dsn: str, scopes: Collection[Scope]) -> Left:
    with connect(dsn) as connection:
        _snapshot(connection)
        views = [_view(connection, scope, vectors=True) for scope in scopes]
        pending = [key for (key,) in connection.execute(_PENDING)]
        return Left(views, pending, [Reserved(Scope(row[0]), *row[1:]) for row in connection.execute(_RESERVED)])


def read_view(connection: psycopg.Connection[Any], scope: Scope) -> View:
    """Return all rows of one scope at one moment; what its vectors are made of is left out."""
    with connection.transaction():
        _snapshot(connection)
        return _view(connection, scope, vectors=False)


def _snapshot(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _view(connection: psycopg.Connection[Any], scope: Scope, *, vectors: bool) -> View:
    def select(columns: str, table: str) -> list[Row]:
        return connection.execute(f"SELECT {columns} FROM {table} WHERE scope_id = %s".encode(), [scope]).fetchall()

    def embedded(columns: str, table: str) -> list[Row]:
        return select(f"{columns}, {'embedding::text' if vectors else 'NULL'}", table)

    now = _moment(connection)
    stages: dict[JobId, dict[Stage, Any]] = {}
    for row in select(rows.STAGE, "image_processing_stages s"):
        state = rows.stage_of(row)
        stages.setdefault(row[0], {})[state.stage] = state
    return View(
        scope=scope,
        now=now,
        memes=[rows.meme_of(scope, row) for row in select(rows.MEME, "memes m")],
        contexts=[rows.context_of(scope, row) for row in select(rows.CONTEXT, "meme_contexts c")],
        jobs=[
            rows.job_of(scope, row, rows.in_order(stages[row[0]]))
            for row in select(rows.JOB, "image_processing_jobs j")
        ],
        tasks=[rows.task_of(scope, row) for row in select(rows.TASK, "tasks t")],
        attempts=[rows.attempt_of(scope, row) for row in select(rows.ATTEMPT, "task_attempts a")],
        grants=[rows.grant_of(scope, row) for row in select(rows.GRANT, "operation_grants g")],
        slots=[Slot(Lane(row[0]), *row[1:]) for row in connection.execute(_SLOTS)],
        visual=[_visual(row) for row in embedded(_VISUAL, "visual_embeddings")],
        text=[_text(row) for row in embedded(_TEXT, "text_embeddings")],
        findable=[_text(row) for row in embedded(_FINDABLE, "search_vectors")],
    )


def _moment(connection: psycopg.Connection[Any]) -> datetime:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None, "a SELECT without FROM has a row"
    moment: datetime = row[0]
    return moment


def _vector(text: str | None) -> Vector:
    return _NOTHING if text is None else Vector.unit(json.loads(text))


def _visual(row: Row) -> VisualProduct:
    return VisualProduct(MemeId(row[0]), Sha256(row[1]), row[2], _vector(row[3]))


def _text(row: Row) -> TextProduct:
    return TextProduct(MemeId(row[0]), Sha256(row[1]), Sha256(row[2]), row[3], _vector(row[4]))

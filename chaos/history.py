"""An append-only history of everything that changes, written by the server in the very transactions that change it.

A reader that looks now and then can miss what is wrong for a moment only; a trigger cannot. ``tx`` says what was
written together.
"""

from collections.abc import Iterator
from typing import Final

import psycopg
from attrs import frozen

from imgproc_domain.scope import Scope

TASK: Final = "task"
JOB: Final = "job"
ATTEMPT: Final = "attempt"
GRANT: Final = "grant"
CONTEXT: Final = "context"
VISUAL: Final = "visual"
TEXT: Final = "text"
SLOT: Final = "slot"


@frozen
class Change:
    """One written row. ``detail`` is what else it refers to, which depends on its kind.

    That is a task's "type meme sha", an attempt's task, a grant's task, a job's meme, a context's "attempt sha" (a
    person's has no attempt), a vector's sha. ``writer`` is the process that wrote it, by the name of its connection;
    ``late``, of a task, that its claim had run out before that transaction began. The state of a slot is the task that
    holds it. ``at`` is the database's clock, in seconds since 1970.
    """

    seq: int
    tx: int
    kind: str
    scope: Scope
    key: str
    state: str
    number: int
    detail: str
    writer: str = ""
    late: bool = False
    at: float = 0.0


@frozen
class _Watch:
    kind: str
    table: str
    key: str
    state: str
    number: str
    detail: str
    always: bool = False
    late: str = "false"


_LATE: Final = (
    "TG_OP = 'UPDATE' AND OLD.status = 'running' AND NEW.status <> 'running'"
    " AND NEW.claim_generation = OLD.claim_generation AND OLD.lease_expires_at <= now()"
)
_WATCHES: Final = (
    _Watch(
        TASK, "tasks", "{r}.task_id", "{r}.status", "{r}.claim_generation",
        "concat_ws(' ', {r}.task_type, {r}.meme_id, {r}.image_sha256)", late=_LATE,
    ),
    _Watch(JOB, "image_processing_jobs", "{r}.job_id", "{r}.status", "{r}.claim_generation", "{r}.meme_id"),
    _Watch(ATTEMPT, "task_attempts", "{r}.attempt_id", "{r}.status", "{r}.generation", "{r}.task_id"),
    _Watch(GRANT, "operation_grants", "{r}.grant_id", "{r}.status", "0", "{r}.task_id"),
    _Watch(
        CONTEXT, "meme_contexts", "{r}.meme_id", "{r}.provenance ->> 'origin'", "{r}.revision",
        "concat_ws(' ', {r}.provenance ->> 'attempt_id', {r}.provenance ->> 'image_sha256')", always=True,
    ),
    _Watch(VISUAL, "visual_embeddings", "{r}.meme_id", "''", "0", "{r}.image_sha256", always=True),
    _Watch(SLOT, "lane_slots", "{r}.number", "{r}.task_id", "0", "{r}.lane"),
    _Watch(TEXT, "text_embeddings", "{r}.meme_id", "''", "0", "{r}.image_sha256", always=True),
)  # fmt: skip

_TABLE: Final = """
    CREATE TABLE chaos_history (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tx bigint NOT NULL,
        kind text NOT NULL, scope text NOT NULL, key text NOT NULL,
        state text NOT NULL, number integer NOT NULL, detail text NOT NULL, writer text NOT NULL, late boolean NOT NULL,
        at double precision NOT NULL
    )
"""
_READ: Final = (
    b"SELECT seq, tx, kind, scope, key, state, number, detail, writer, late, at FROM chaos_history ORDER BY seq"
)


def install(dsn: str) -> None:
    """Begin to write history in a database that has our schema and no row."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_TABLE.encode())
        for watch in _WATCHES:
            connection.execute(_function(watch).encode())
            name = f"chaos_note_{watch.kind}"
            connection.execute(
                f"CREATE TRIGGER {name} AFTER INSERT OR UPDATE ON {watch.table}"
                f" FOR EACH ROW EXECUTE FUNCTION {name}()".encode()
            )


def _function(watch: _Watch) -> str:
    new = [part.format(r="NEW") for part in (watch.key, watch.state, watch.number, watch.detail)]
    same = " AND ".join(
        f"{part.format(r='OLD')} IS NOT DISTINCT FROM {part.format(r='NEW')}" for part in (watch.state, watch.number)
    )
    skip = "" if watch.always else f"IF TG_OP = 'UPDATE' AND {same} THEN RETURN NULL; END IF;"
    return f"""
        CREATE FUNCTION chaos_note_{watch.kind}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            {skip}
            INSERT INTO chaos_history (tx, kind, scope, key, state, number, detail, writer, late, at)
            VALUES (pg_current_xact_id()::text::bigint, '{watch.kind}', coalesce(NEW.scope_id, ''), {new[0]}::text,
                coalesce(({new[1]})::text, ''), {new[2]}, coalesce(({new[3]})::text, ''),
                current_setting('application_name'), {watch.late}, extract(epoch FROM clock_timestamp()));
            RETURN NULL;
        END $$
    """


def read(dsn: str) -> Iterator[Change]:
    """Yield the whole history, oldest change first."""
    with psycopg.connect(dsn) as connection, connection.cursor("chaos_history") as cursor:
        cursor.execute(_READ)
        for seq, tx, kind, scope, *rest in cursor:
            yield Change(seq, tx, kind, Scope(scope), *rest)

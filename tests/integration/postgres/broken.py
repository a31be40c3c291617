"""For every check, statements that break what it promises, and nothing else where that is possible.

They are run on the database of `outcomes`; the names of files say which picture is meant.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen
from tests.integration.postgres.outcomes import S


@frozen
class Broken:
    """``statements`` break one check. ``also`` names others that cannot but be broken with it."""

    statements: tuple[str, ...]
    also: frozenset[str] = frozenset()


def by(*statements: str, also: Sequence[str] = ()) -> Broken:
    return Broken(statements, frozenset(also))


def meme(name: str) -> str:
    return f"(SELECT meme_id FROM memes WHERE scope_id = '{S}' AND filename = '{name}.png')"


def job(name: str, revision: int | None = None) -> str:
    which = f"AND revision = {revision}" if revision else "ORDER BY revision DESC LIMIT 1"
    return f"(SELECT job_id FROM image_processing_jobs WHERE scope_id = '{S}' AND meme_id = {meme(name)} {which})"


def task(name: str, stage: str) -> str:
    return f"(SELECT task_id FROM image_processing_stages WHERE job_id = {job(name)} AND stage = '{stage}')"


def key(name: str) -> str:
    return f"({job(name)} || ':agent')"


def copied(table: str, where: str, **values: str) -> str:
    """Return an INSERT of a copy of some rows in which these columns have other values."""
    changed = ", ".join(f"'{column}', {value}" for column, value in values.items())
    row = f"jsonb_populate_record(old, jsonb_build_object({changed}))"
    return f"INSERT INTO {table} SELECT ({row}).* FROM {table} old WHERE {where}"


def next_job(name: str) -> tuple[str, ...]:
    """Return statements that open another revision of a meme with one job."""
    new = {"job_id": "md5('another job')::uuid", "status": "'queued'", "error_code": "NULL", "error_message": "NULL"}
    return (
        copied(
            "image_processing_jobs",
            f"job_id = {job(name)}",
            revision="2",
            due_at="now()",
            completed_at="NULL",
            **new,
        ),
        copied("image_processing_stages", f"job_id = {job(name, 1)}", task_id="NULL", **new),
    )


def release(logical_request_key: str, created: str = "now()", done: str = "NULL") -> str:
    return f"""
        INSERT INTO grant_releases (scope_id, operation, logical_request_key, created_at, done_at)
        VALUES ('{S}', 'analysis.agent', {logical_request_key}, {created}, {done})
    """


ZEROS: Final = "repeat('0', 64)"
LONG_AGO: Final = "now() - interval '1 hour'"
FREED: Final = "scope_id = NULL, task_id = NULL, generation = NULL, free_at = NULL"

WON: Final = f"task_id = {task('won', 'visual')}"
FRESH: Final = f"task_id = {task('fresh', 'visual')}"
ENDED: Final = "status = 'failed', completed_at = now(), error_code = 'visual_failed', error_message = 'x'"
FAILED: Final = (
    "status = 'failed', completed_at = now(), due_at = NULL, error_code = 'agent_failed', error_message = 'x'"
)
STAGE_FAILED: Final = "status = 'failed', error_code = 'agent_failed', error_message = 'x'"

SCHEMA: Final[Mapping[str, Sequence[Broken]]] = {
    "constraints": (
        by("ALTER TABLE tasks DROP CONSTRAINT ck_tasks_counters"),
        by(
            "ALTER TABLE task_attempts DROP CONSTRAINT fk_task_attempts_task",
            "ALTER TABLE task_attempts ADD CONSTRAINT fk_task_attempts_task FOREIGN KEY (scope_id, task_id)"
            " REFERENCES tasks NOT VALID",
        ),
        by(
            "ALTER TABLE policy_quotas DROP CONSTRAINT pk_policy_quotas,"
            " ADD CONSTRAINT pk_policy_quotas PRIMARY KEY (operation, scope_id, period)"
        ),
    ),
    "indexes": (
        by("DROP INDEX ix_memes_live"),
        by(
            "DROP INDEX uq_memes_live_content",
            "CREATE INDEX uq_memes_live_content ON memes (scope_id, image_sha256) WHERE deleted_at IS NULL",
        ),
        by(
            "DROP INDEX ix_tasks_running",
            "CREATE INDEX ix_tasks_running ON tasks (scope_id) WHERE status = 'running'",
        ),
    ),
    "known-scopes": (
        by("UPDATE lane_slots SET scope_id = 'nobody', task_id = gen_random_uuid(), generation = 1 WHERE number = 8"),
        by(
            "ALTER TABLE policy_quotas DROP CONSTRAINT fk_policy_quotas_scope",
            "INSERT INTO policy_quotas VALUES ('nobody', 'image.upload', 'day', 1)",
            also=["constraints"],
        ),
    ),
    "references": (
        by(
            "ALTER TABLE visual_embeddings DROP CONSTRAINT fk_visual_embeddings_meme",
            copied("visual_embeddings", f"meme_id = {meme('won')}", meme_id="md5('nobody')::uuid"),
            also=["constraints"],
        ),
    ),
}

WORK: Final[Mapping[str, Sequence[Broken]]] = {
    "one-active-job": (
        by("DROP INDEX uq_image_processing_jobs_active", *next_job("fresh"), also=["indexes", "newest-job"]),
    ),
    "one-active-task": (
        by(
            "DROP INDEX uq_tasks_active_leaf",
            copied("tasks", f"job_id = {job('dropped', 1)}", task_id="md5('another task')::uuid"),
            also=["indexes"],
        ),
    ),
    "claims-counted": (by(f"UPDATE tasks SET started_at = NULL WHERE {WON}"),),
    "attempt-of-a-claim": (by(f"UPDATE task_attempts SET generation = 9 WHERE {WON}"),),
    "generations-rise": (
        by(f"UPDATE task_attempts SET generation = 1 WHERE attempt_no = 2 AND task_id = {task('lost', 'visual')}"),
    ),
    "running-attempt": (
        by(
            "UPDATE task_attempts SET status = 'failed', completed_at = now()"
            f" WHERE task_id = {task('prepared', 'agent')}"
        ),
        by(f"DELETE FROM task_attempts WHERE task_id = {task('prepared', 'agent')}"),
    ),
    "attempts-counted": (by(f"UPDATE task_attempts SET attempt_no = 2 WHERE {WON}"),),
    "attempt-behind-another": (
        by(
            f"UPDATE tasks SET claim_generation = 2, started_at = now() WHERE {FRESH}",
            copied(
                "task_attempts",
                WON,
                task_id=task("fresh", "visual"),
                attempt_id="'first'",
                status="'prepared'",
                external_started_at="NULL",
                hard_deadline_at="NULL",
                completed_at="NULL",
            ),
            copied(
                "task_attempts",
                WON,
                task_id=task("fresh", "visual"),
                attempt_id="'second'",
                attempt_no="2",
                generation="2",
                status="'failed'",
            ),
        ),
    ),
    "attempt-outlives-task": (
        by(f"UPDATE task_attempts SET status = 'external_started', completed_at = NULL WHERE {WON}"),
    ),
    "start-recorded": (
        by(f"UPDATE task_attempts SET external_started_at = NULL, hard_deadline_at = NULL WHERE {WON}"),
        by(
            "UPDATE task_attempts SET external_started_at = now(), hard_deadline_at = now()"
            f" WHERE task_id = {task('prepared', 'agent')}",
            also=["commit-before-call"],
        ),
    ),
    "unknown-task": (
        by(f"UPDATE task_attempts SET status = 'unknown_execution' WHERE {WON}"),
        by(f"UPDATE task_attempts SET status = 'failed' WHERE task_id = {task('unknown', 'agent')}"),
    ),
    "unknown-stage": (
        by(
            f"UPDATE image_processing_stages SET {STAGE_FAILED} WHERE job_id = {job('unknown')} AND stage = 'agent'",
            f"UPDATE image_processing_jobs SET {FAILED} WHERE job_id = {job('unknown')}",
        ),
    ),
    "unknown-repeated": (
        by(f"UPDATE image_processing_jobs SET created_at = {LONG_AGO} WHERE job_id = {job('asked')}"),
    ),
    "unknown-job": (
        by(f"UPDATE image_processing_jobs SET {FAILED} WHERE job_id = {job('unknown')}"),
        by(f"UPDATE image_processing_jobs SET {FAILED} WHERE job_id = {job('blocked')}"),
    ),
    "over-and-at-rest": (
        by(
            "ALTER TABLE image_processing_jobs DROP CONSTRAINT ck_image_processing_jobs_rest",
            f"UPDATE image_processing_jobs SET due_at = now() WHERE job_id = {job('won')}",
            also=["constraints"],
        ),
        by(
            "ALTER TABLE tasks DROP CONSTRAINT ck_tasks_terminal",
            f"UPDATE tasks SET completed_at = NULL WHERE {WON}",
            also=["constraints"],
        ),
        by(
            "ALTER TABLE tasks DROP CONSTRAINT ck_tasks_running",
            f"UPDATE tasks SET lease_owner = 'x', lease_expires_at = now() WHERE {WON}",
            also=["constraints"],
        ),
        by(
            "ALTER TABLE task_attempts DROP CONSTRAINT ck_task_attempts_terminal",
            f"UPDATE task_attempts SET completed_at = NULL WHERE {WON}",
            also=["constraints"],
        ),
    ),
    "newest-job": (
        by(
            "UPDATE image_processing_jobs SET status = 'running', completed_at = NULL, error_code = NULL,"
            f" error_message = NULL, due_at = now() WHERE job_id = {job('retried', 1)}"
        ),
        by(
            "DROP INDEX uq_image_processing_jobs_revision",
            f"UPDATE image_processing_jobs SET revision = 1 WHERE job_id = {job('retried')}",
            also=["indexes"],
        ),
    ),
    "three-stages": (
        by(f"DELETE FROM image_processing_stages WHERE job_id = {job('failed')} AND stage = 'text_embedding'"),
        by(f"DELETE FROM image_processing_stages WHERE job_id = {job('failed')}"),
    ),
    "stages-in-order": (
        by(
            f"UPDATE image_processing_stages SET {STAGE_FAILED} WHERE job_id = {job('failed')}"
            " AND stage = 'text_embedding'"
        ),
        by(
            f"UPDATE image_processing_stages SET status = 'queued' WHERE job_id = {job('won')}"
            " AND stage = 'text_embedding'"
        ),
    ),
    "running-stage": (by(f"UPDATE tasks SET {ENDED} WHERE {FRESH}"),),
    "awaited-task": (
        by(
            f"UPDATE image_processing_stages SET status = 'queued', task_id = NULL WHERE {FRESH}",
            f"UPDATE image_processing_jobs SET due_at = now() WHERE job_id = {job('fresh')}",
        ),
    ),
    "task-of-stage": (
        by(f"UPDATE image_processing_stages SET task_id = {task('won-too', 'visual')} WHERE {WON}"),
        by(f"UPDATE image_processing_stages SET task_id = {task('won', 'text_embedding')} WHERE {WON}"),
    ),
    "product-of-stage": (
        by(f"DELETE FROM visual_embeddings WHERE meme_id = {meme('won')}"),
        by(
            f"DELETE FROM search_vectors WHERE meme_id = {meme('won')}",
            f"DELETE FROM text_embeddings WHERE meme_id = {meme('won')}",
        ),
        by(
            f"DELETE FROM search_vectors WHERE meme_id = {meme('won')}",
            f"DELETE FROM meme_contexts WHERE meme_id = {meme('won')}",
        ),
    ),
    "version-of-task": (by(f"UPDATE tasks SET image_sha256 = {ZEROS} WHERE {WON}"),),
    "policy-of-task": (
        by(f"UPDATE tasks SET reverse_image_policy = 'auto' WHERE {WON}"),
        by(f"UPDATE tasks SET config_fingerprint = 'other' WHERE {WON}"),
    ),
}

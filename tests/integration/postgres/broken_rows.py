"""As `broken`, for grants, reservations, evidence, the library, slots, and what may be late or left over."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.integration.postgres.broken import (
    ENDED,
    FAILED,
    FREED,
    FRESH,
    LONG_AGO,
    STAGE_FAILED,
    ZEROS,
    Broken,
    by,
    copied,
    job,
    key,
    meme,
    next_job,
    release,
    task,
)
from tests.integration.postgres.outcomes import S

AGENT: Final = "operation = 'analysis.agent'"
FILLING: Final = "filling_space_id = 'other', filling_dimension = 8"
SOMEBODY: Final = f"scope_id = '{S}', generation = 1"


def grant(name: str) -> str:
    return f"task_id = {task(name, 'agent')}"


def context(name: str, field: str, value: str) -> Broken:
    changed = f"jsonb_set(provenance, '{{{field}}}', to_jsonb({value}))"
    return by(f"UPDATE meme_contexts SET provenance = {changed} WHERE meme_id = {meme(name)}")


PERMISSION: Final[Mapping[str, Sequence[Broken]]] = {
    "grant-of-task": (
        by(
            f"UPDATE tasks SET grant_id = (SELECT grant_id FROM operation_grants WHERE {grant('won-too')})"
            f" WHERE task_id = {task('won', 'agent')}"
        ),
        by(f"UPDATE operation_grants SET job_id = {job('won-too')} WHERE {grant('won')}"),
        by(
            copied(
                "operation_grants",
                grant("won"),
                grant_id="md5('another grant')::uuid",
                operation="'analysis.reverse_image_search'",
                reservation="'x'",
            )
        ),
    ),
    "commit-before-call": (
        by(f"UPDATE operation_grants SET status = 'acquired' WHERE {grant('calling')}"),
        by(f"UPDATE task_attempts SET status = 'grant_committed' WHERE task_id = {task('prepared', 'agent')}"),
    ),
    "released-after-call": (
        by(f"UPDATE operation_grants SET status = 'released' WHERE {grant('won')}", release(key("won"))),
    ),
    "granted-once": (
        by(
            "DROP INDEX uq_operation_grants_request",
            f"UPDATE operation_grants SET logical_request_key = {key('won')} WHERE {grant('won-too')}",
            f"DELETE FROM policy_reservations WHERE logical_request_key = {key('won-too')}",
            also=["indexes"],
        ),
    ),
    "grant-outlives-task": (
        by(f"UPDATE operation_grants SET status = 'released' WHERE {grant('waiting')}", release(key("waiting"))),
        by(
            f"UPDATE tasks SET {ENDED} WHERE task_id = {task('waiting', 'agent')}",
            f"UPDATE image_processing_stages SET {STAGE_FAILED} WHERE job_id = {job('waiting')} AND stage = 'agent'",
            f"UPDATE image_processing_jobs SET {FAILED} WHERE job_id = {job('waiting')}",
        ),
    ),
    "unknown-grant": (by(f"UPDATE operation_grants SET status = 'committed' WHERE {grant('unknown')}"),),
    "release-told": (by(f"DELETE FROM grant_releases WHERE logical_request_key = {key('released')}"),),
    "tombstone-of-used-grant": (by(release(key("won"))),),
    "grant-without-reservation": (
        by(f"UPDATE policy_reservations SET committed_at = NULL WHERE logical_request_key = {key('won')}"),
        by(f"DELETE FROM policy_reservations WHERE logical_request_key = {key('waiting')}"),
    ),
    "returned-in-use": (
        by(
            "UPDATE policy_reservations SET returned_at = now(), committed_at = NULL"
            f" WHERE logical_request_key = {key('won')}"
        ),
    ),
    "reserved-after-release": (
        by(f"UPDATE policy_reservations SET returned_at = NULL WHERE logical_request_key = {key('released')}"),
    ),
    "reserved-for-nobody": (
        by(
            f"DELETE FROM grant_releases WHERE logical_request_key = {key('blocked')}",
            "UPDATE policy_reservations SET returned_at = NULL, fingerprint = 'x'"
            f" WHERE logical_request_key = {key('blocked')}",
        ),
    ),
    "late-result": (
        by("UPDATE late_results SET attempt_id = 'nobody'"),
        by("UPDATE late_results SET generation = 99"),
    ),
    "resolution": (
        by(
            f"UPDATE execution_resolutions SET attempt_id = 'nobody' WHERE task_id = {task('resolved', 'agent')}",
            f"UPDATE task_attempts SET hard_deadline_at = now() WHERE task_id = {task('resolved', 'agent')}",
        ),
    ),
}

LIBRARY: Final[Mapping[str, Sequence[Broken]]] = {
    "context-of-attempt": (
        by(f"UPDATE task_attempts SET status = 'failed' WHERE task_id = {task('won', 'agent')}"),
        context("won", "attempt_id", "'nobody'::text"),
    ),
    "version-of-context": (context("won", "image_sha256", ZEROS),),
    "policy-of-context": (context("won", "reverse_image_policy", "'auto'::text"),),
    "found-not-current": (
        by(f"UPDATE memes SET deleted_at = now() WHERE meme_id = {meme('won')}"),
        by(f"UPDATE meme_contexts SET status = 'pending' WHERE meme_id = {meme('won')}"),
    ),
    "current-not-found": (by(f"DELETE FROM search_vectors WHERE meme_id = {meme('won')}"),),
    "found-not-made": (
        by(
            f"DELETE FROM text_embeddings WHERE meme_id = {meme('edited')} AND metadata_hash ="
            f" (SELECT metadata_hash FROM meme_contexts WHERE meme_id = {meme('edited')})"
        ),
    ),
    "dimension-of-space": (by("UPDATE embedding_spaces SET dimension = 9 WHERE space_id = 'scripted-visual-1'"),),
    "search-state": (by(f"DELETE FROM search_migrations WHERE scope_id = '{S}'"),),
    "generation-of-task": (by("UPDATE cache_generations SET completed_at = NULL"),),
}

SEARCH: Final[Mapping[str, Sequence[Broken]]] = {
    "filled-beside-served": (
        by("UPDATE search_migrations SET serving_space_id = NULL, serving_dimension = NULL, " + FILLING),
        by(
            "ALTER TABLE search_migrations DROP CONSTRAINT ck_search_migrations_spaces",
            "UPDATE search_migrations SET filling_space_id = serving_space_id, filling_dimension = serving_dimension",
            also=["constraints"],
        ),
    ),
    "dimension-served": (
        by("UPDATE search_migrations SET serving_dimension = 9"),
        by(
            "UPDATE search_migrations SET filling_space_id = serving_space_id, filling_dimension = 9,"
            " serving_space_id = 'other'"
        ),
    ),
    "legacy-readable": (
        by(
            "UPDATE search_migrations SET mode = 'legacy_only'",
            "UPDATE cache_generations SET completed_at = NULL",
            also=["generation-of-task"],
        ),
        by(
            "UPDATE search_migrations SET mode = 'backfill'",
            "UPDATE cache_generations SET completed_at = NULL",
            also=["generation-of-task"],
        ),
    ),
    "dimension-of-generation": (by("UPDATE cache_generations SET dimension = 9"),),
}

LANES: Final[Mapping[str, Sequence[Broken]]] = {
    "slots-numbered": (by("DELETE FROM lane_slots WHERE number = 7"),),
    "one-slot-a-claim": (
        by(f"UPDATE lane_slots SET {SOMEBODY}, task_id = {task('prepared', 'agent')} WHERE number = 8"),
    ),
    "leaked-slot": (
        by(f"UPDATE lane_slots SET {SOMEBODY}, task_id = {task('won', 'visual')} WHERE number = 8"),
        by(f"UPDATE lane_slots SET {SOMEBODY}, task_id = gen_random_uuid() WHERE number = 8"),
    ),
    "slot-without-call": (by("UPDATE lane_slots SET free_at = free_at + interval '1 day' WHERE free_at IS NOT NULL"),),
    "running-without-slot": (by(f"UPDATE lane_slots SET {FREED} WHERE {grant('prepared')}"),),
    "call-without-slot": (
        by(f"UPDATE lane_slots SET {FREED} WHERE {grant('unknown')}"),
        by("UPDATE execution_resolutions SET call_over = false"),
    ),
    "lost-job": (
        by(
            f"UPDATE tasks SET {ENDED} WHERE {FRESH}",
            f"UPDATE image_processing_stages SET status = 'queued', task_id = NULL WHERE {FRESH}",
        ),
    ),
}

LATE: Final[Mapping[str, Sequence[Broken]]] = {
    "overdue-job": (by(f"UPDATE image_processing_jobs SET due_at = {LONG_AGO} WHERE job_id = {job('fresh')}"),),
    "expired-lease": (by(f"UPDATE tasks SET lease_expires_at = {LONG_AGO} WHERE {grant('calling')}"),),
    "task-of-ended-job": (
        by(
            f"UPDATE image_processing_jobs SET completed_at = {LONG_AGO} WHERE job_id = {job('dropped', 1)}",
            f"UPDATE tasks SET available_at = {LONG_AGO} WHERE job_id = {job('dropped', 1)}",
        ),
    ),
    "pending-release": (by(release("'somebody'", LONG_AGO)),),
    "served-empty": (by("UPDATE search_migrations SET serving_space_id = 'other'"),),
}

REST: Final[Mapping[str, Sequence[Broken]]] = {
    "no-live-job": (by(*next_job("blocked")),),
    "no-live-task": (
        by(
            "INSERT INTO tasks (scope_id, task_id, task_type, status, claim_generation, available_at, failures,"
            f" lease_losses, created_at) VALUES ('{S}', gen_random_uuid(), 'cache_generation', 'queued', 0, now(), 0,"
            " 0, now())"
        ),
    ),
    "no-acquired-grant": (
        by(
            f"UPDATE operation_grants SET status = 'acquired' WHERE {grant('won')}",
            also=["commit-before-call", "grant-outlives-task"],
        ),
    ),
    "no-pending-release": (by(release("'somebody'")),),
    "no-open-reservation": (
        by(
            "INSERT INTO policy_reservations (scope_id, operation, logical_request_key, fingerprint, units,"
            f" acquired_at) VALUES ('{S}', 'analysis.agent', 'somebody', 'x', 1, now())"
        ),
    ),
    "no-held-slot": (
        by(
            "UPDATE lane_slots SET free_at = free_at + interval '1 hour'",
            f"UPDATE task_attempts SET hard_deadline_at = now() + interval '1 hour' WHERE {grant('unknown')}",
        ),
    ),
}

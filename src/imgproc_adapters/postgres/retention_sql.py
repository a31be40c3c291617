"""The statements that look at history and delete it. Comments name indexes other than primary keys.

Facts are read by correlated scalar subqueries: those run once a row, by an index, whatever stale statistics say about
a scope's size. Rows are found by ``id = ANY(array)`` behind the scope: see `claims` for why.
"""

from typing import Final

from imgproc_adapters.postgres.rows import MEME
from imgproc_adapters.postgres.session import statement

JOBS_BEHIND: Final = statement(
    """
    SELECT job_id FROM image_processing_jobs
    WHERE scope_id = %(scope)s AND job_id > %(after)s
    ORDER BY job_id LIMIT %(limit)s
    """
)

# uq_image_processing_jobs_revision: a meme has few revisions. The key of a job's agent request begins with its id.
_OF_TARGET: Final = """
    o.scope_id = j.scope_id AND o.meme_id = j.meme_id AND o.revision >= 1
      AND o.image_sha256 = j.image_sha256 AND o.reverse_image_policy = j.reverse_image_policy
"""
JOB_FACTS: Final = statement(
    """
    SELECT j.job_id, j.completed_at,
        j.revision = (SELECT max(o.revision) FROM image_processing_jobs o WHERE {of_target}),
        coalesce(j.revision = (
            SELECT max(o.revision) FROM image_processing_jobs o
            WHERE {of_target} AND (
                SELECT s.task_id FROM image_processing_stages s
                WHERE s.scope_id = o.scope_id AND s.job_id = o.job_id AND s.stage = 'agent'
            ) IS NOT NULL
        ), false),
        (SELECT count(*) FROM grant_releases r
         WHERE r.scope_id = j.scope_id AND r.operation = 'analysis.agent'
           AND r.logical_request_key = j.job_id || ':agent' AND r.done_at IS NULL) > 0
    FROM image_processing_jobs j WHERE j.scope_id = %(scope)s AND j.job_id = ANY (%(ids)s)
    ORDER BY j.job_id
    """,
    of_target=_OF_TARGET,
)

# a lane has a handful of slots; ix_grant_releases_pending
_TASK_FACTS: Final = """
    t.task_id, t.completed_at,
    (SELECT count(*) FROM lane_slots l WHERE l.scope_id = t.scope_id AND l.task_id = t.task_id) > 0,
    (SELECT count(*) FROM task_attempts a
     WHERE a.scope_id = t.scope_id AND a.task_id = t.task_id AND a.status = 'unknown_execution'
       AND (SELECT count(*) FROM execution_resolutions r
            WHERE r.scope_id = a.scope_id AND r.task_id = a.task_id AND r.attempt_id = a.attempt_id) = 0) > 0,
    (SELECT max(a.hard_deadline_at) FROM task_attempts a WHERE a.scope_id = t.scope_id AND a.task_id = t.task_id),
    (SELECT count(*) FROM meme_contexts c
     WHERE c.scope_id = t.scope_id AND c.meme_id = t.meme_id
       AND (SELECT count(*) FROM task_attempts a
            WHERE a.scope_id = t.scope_id AND a.task_id = t.task_id
              AND a.attempt_id = c.provenance ->> 'attempt_id') > 0) > 0,
    (SELECT count(*) FROM operation_grants g
     WHERE g.scope_id = t.scope_id AND g.grant_id = t.grant_id
       AND (SELECT count(*) FROM grant_releases r
            WHERE r.scope_id = g.scope_id AND r.operation = g.operation
              AND r.logical_request_key = g.logical_request_key AND r.done_at IS NULL) > 0) > 0
"""

# A stage names the one task it ever had.
_OF_JOBS: Final = """
    ARRAY(SELECT task_id FROM image_processing_stages
          WHERE scope_id = %(scope)s AND job_id = ANY (%(ids)s) AND task_id IS NOT NULL)
"""
TASK_FACTS: Final = statement(
    """
    SELECT {facts}, t.job_id FROM tasks t WHERE t.scope_id = %(scope)s AND t.task_id = ANY ({of_jobs})
    ORDER BY t.task_id
    """,
    facts=_TASK_FACTS,
    of_jobs=_OF_JOBS,
)
TASKS_OF_JOBS: Final = statement(
    "SELECT task_id, job_id FROM tasks WHERE scope_id = %(scope)s AND task_id = ANY ({of_jobs})", of_jobs=_OF_JOBS
)

# FOR UPDATE, because keys go: who is about to refer to a row holds it, and it is skipped.
LOCK_TASKS: Final = statement(
    """
    SELECT task_id FROM tasks WHERE scope_id = %(scope)s AND task_id = ANY (%(ids)s)
    ORDER BY task_id FOR UPDATE SKIP LOCKED
    """
)
LOCK_JOBS: Final = statement(
    """
    SELECT job_id FROM image_processing_jobs WHERE scope_id = %(scope)s AND job_id = ANY (%(ids)s)
    ORDER BY job_id FOR UPDATE SKIP LOCKED
    """
)
LOCK_MEMES: Final = statement(
    """
    SELECT meme_id FROM memes WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s) AND deleted_at IS NOT NULL
    ORDER BY meme_id FOR UPDATE SKIP LOCKED
    """
)

# ix_memes_deleted
MEMES_BEHIND: Final = statement(
    """
    SELECT meme_id FROM memes
    WHERE scope_id = %(scope)s AND deleted_at IS NOT NULL AND meme_id > %(after)s
    ORDER BY meme_id LIMIT %(limit)s
    """
)
DELETED_MEMES: Final = statement(
    """
    SELECT {meme} FROM memes m
    WHERE m.scope_id = %(scope)s AND m.meme_id = ANY (%(ids)s) AND m.deleted_at IS NOT NULL ORDER BY m.meme_id
    """,
    meme=MEME,
)

# uq_image_processing_jobs_revision
JOBS_OF_MEMES: Final = statement(
    """
    SELECT job_id, meme_id FROM image_processing_jobs
    WHERE scope_id = %(scope)s AND meme_id = ANY (%(ids)s) AND revision >= 1
    """
)

# ix_tasks_maintenance
MAINTENANCE_BEHIND: Final = statement(
    """
    SELECT task_id FROM tasks
    WHERE scope_id = %(scope)s AND task_type = 'cache_generation' AND task_id > %(after)s
    ORDER BY task_id LIMIT %(limit)s
    """
)
MAINTENANCE_FACTS: Final = statement(
    """
    SELECT {facts}, g.generation_id, g.completed_at IS NOT NULL, (
        SELECT min(later.completed_at) FROM cache_generations later
        WHERE later.scope_id = g.scope_id AND later.generation_id > g.generation_id
    )
    FROM tasks t LEFT JOIN cache_generations g ON g.scope_id = t.scope_id AND g.task_id = t.task_id
    WHERE t.scope_id = %(scope)s AND t.task_id = ANY (%(ids)s) AND t.task_type = 'cache_generation'
    ORDER BY t.task_id
    """,
    facts=_TASK_FACTS,
)

# uq_operation_grants_request; the key of an agent request names its job
_IN_USE: Final = """
    (SELECT count(*) FROM operation_grants g
     WHERE g.scope_id = r.scope_id AND g.operation = r.operation AND g.logical_request_key = r.logical_request_key
       AND length(g.fingerprint) > 0) > 0
    OR CASE WHEN r.operation = 'analysis.agent' AND r.logical_request_key ~ '^[0-9a-f-]{{36}}:agent$' THEN (
        SELECT count(*) FROM image_processing_jobs j
        WHERE j.scope_id = r.scope_id AND j.job_id = left(r.logical_request_key, 36)::uuid) > 0 ELSE false END
"""
_KEYS: Final = """
    SELECT r.operation, r.logical_request_key, {settled_at}, {in_use} FROM {table} r
    WHERE r.scope_id = %(scope)s AND (r.operation, r.logical_request_key) > (%(operation)s, %(key)s)
    ORDER BY r.operation, r.logical_request_key LIMIT %(limit)s
"""
TOMBSTONES_BEHIND: Final = statement(_KEYS, settled_at="r.done_at", in_use=_IN_USE.format(), table="grant_releases")
RESERVATIONS_BEHIND: Final = statement(
    _KEYS,
    settled_at="greatest(r.acquired_at, r.committed_at, r.returned_at)",
    in_use=_IN_USE.format(),
    table="policy_reservations",
)

DELETE_TOMBSTONES: Final = statement(
    """
    DELETE FROM grant_releases r USING unnest(%(operation)s, %(key)s) AS n (operation, key)
    WHERE r.scope_id = %(scope)s AND r.operation = n.operation AND r.logical_request_key = n.key
      AND r.logical_request_key = ANY (%(key)s) AND r.done_at IS NOT NULL
    """
)
DELETE_RESERVATIONS: Final = statement(
    """
    DELETE FROM policy_reservations r USING unnest(%(operation)s, %(key)s) AS n (operation, key)
    WHERE r.scope_id = %(scope)s AND r.operation = n.operation AND r.logical_request_key = n.key
      AND r.logical_request_key = ANY (%(key)s)
      AND greatest(r.acquired_at, r.committed_at, r.returned_at) < %(before)s
    """
)

ENTRIES: Final = statement(
    "SELECT count(*) FROM cache_generation_entries WHERE scope_id = %(scope)s AND generation_id = %(id)s"
)
DELETE_ENTRIES: Final = statement(
    """
    DELETE FROM cache_generation_entries
    WHERE scope_id = %(scope)s AND generation_id = %(id)s AND meme_id = ANY (ARRAY(
        SELECT meme_id FROM cache_generation_entries
        WHERE scope_id = %(scope)s AND generation_id = %(id)s ORDER BY meme_id LIMIT %(limit)s
    ))
    """
)

DELETE_VISUAL: Final = statement(
    """
    DELETE FROM visual_embeddings v USING unnest(%(ids)s, %(image_sha256)s, %(space_id)s) AS n (meme_id, sha256, space)
    WHERE v.scope_id = %(scope)s AND v.meme_id = n.meme_id AND v.meme_id = ANY (%(ids)s)
      AND v.image_sha256 = n.sha256 AND v.space_id = n.space
    """
)
DELETE_TEXT: Final = statement(
    """
    DELETE FROM text_embeddings v
    USING unnest(%(ids)s, %(image_sha256)s, %(metadata_hash)s, %(space_id)s) AS n (meme_id, sha256, words, space)
    WHERE v.scope_id = %(scope)s AND v.meme_id = n.meme_id AND v.meme_id = ANY (%(ids)s)
      AND v.image_sha256 = n.sha256 AND v.metadata_hash = n.words AND v.embedding_model_version = n.space
    """
)

# pk_search_vectors, one probe a key
DELETE_FINDABLE: Final = statement(
    """
    DELETE FROM search_vectors v
    USING unnest(%(ids)s, %(image_sha256)s, %(metadata_hash)s, %(space_id)s) AS n (meme_id, sha256, words, space)
    WHERE v.scope_id = %(scope)s AND v.meme_id = n.meme_id AND v.meme_id = ANY (%(ids)s)
      AND v.space_id = n.space AND v.space_id = ANY (%(space_id)s)
      AND v.image_sha256 = n.sha256 AND v.metadata_hash = n.words
    """
)

"""Checks of grants, of the outbox that gives them back, of the quota policy's reservations, and of evidence: I7-I9.

The quota policy keeps its rows in this database, and commits them before the pipeline's own: what a grant says was
reserved or spent must be there. Other policies leave no rows, so that nothing is claimed of them.
"""

from typing import Final

from imgproc_adapters.postgres.invariants_check import Check

_GRANTS: Final = (
    Check(
        invariant="I7",
        name="grant-of-task",
        sentence="an agent task has a grant of its own, and a grant belongs to exactly one task",
        sql="""
            SELECT 'task ' || t.task_id, 'has no grant of its own' FROM {tasks} t
            WHERE t.task_type = 'meme_context_generation' AND NOT EXISTS (
                SELECT FROM {operation_grants} g
                WHERE g.grant_id = t.grant_id AND g.task_id = t.task_id AND g.job_id = t.job_id
                  AND g.operation = 'analysis.agent'
            )
            UNION ALL
            SELECT 'grant ' || g.grant_id, 'is not named by its task ' || g.task_id FROM {operation_grants} g
            WHERE NOT EXISTS (SELECT FROM {tasks} t WHERE t.task_id = g.task_id AND t.grant_id = g.grant_id)
        """,
    ),
    Check(
        invariant="I7",
        name="commit-before-call",
        sentence="an agent attempt is beyond its preparation only under a grant that was committed",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'is ' || a.status || ', its grant ' || g.status
            FROM {task_attempts} a JOIN {operation_grants} g ON g.task_id = a.task_id
            WHERE (a.status = 'grant_committed' AND g.status NOT IN ('committed', 'unknown'))
               OR (a.external_started_at IS NOT NULL AND g.status = 'acquired')
        """,
    ),
    Check(
        invariant="I8",
        name="released-after-call",
        sentence="no call was started under a grant that is released",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is released, attempt ' || a.attempt_no || ' of task ' || a.task_id ||
                ' was started ' || a.external_started_at
            FROM {operation_grants} g JOIN {task_attempts} a ON a.task_id = g.task_id
            WHERE g.status = 'released' AND a.external_started_at IS NOT NULL
        """,
    ),
    Check(
        invariant="I8",
        name="granted-once",
        sentence="a logical request is granted once",
        sql="""
            SELECT g.operation || ' ' || g.logical_request_key, count(*) || ' grants'
            FROM {operation_grants} g GROUP BY g.operation, g.logical_request_key HAVING count(*) > 1
        """,
    ),
    Check(
        invariant="I8",
        name="grant-outlives-task",
        sentence="a grant is acquired as long as its task is live and made no call, and released only after that",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is ' || g.status || ', its task ' || t.task_id || ' is ' || t.status
            FROM {operation_grants} g JOIN {tasks} t ON t.task_id = g.task_id
            WHERE (g.status = 'acquired' AND t.status NOT IN ('queued', 'running'))
               OR (g.status = 'released' AND t.status IN ('queued', 'running'))
        """,
    ),
    Check(
        invariant="I9",
        name="unknown-grant",
        sentence="a grant is unknown exactly if its task ended as unknown",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is ' || g.status || ', its task ' || t.task_id || ' is ' || t.status ||
                coalesce(' with ' || t.error_code, '')
            FROM {operation_grants} g JOIN {tasks} t ON t.task_id = g.task_id
            WHERE (g.status = 'unknown') <> {is_unknown} AND g.status <> 'acquired'
        """,
    ),
)

_RELEASES: Final = (
    Check(
        invariant="I8",
        name="release-told",
        sentence="a released grant is in the outbox, whose row stays as its tombstone",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is released, the outbox has no ' || g.logical_request_key
            FROM {operation_grants} g WHERE g.status = 'released' AND NOT EXISTS (
                SELECT FROM {grant_releases} r
                WHERE r.operation = g.operation AND r.logical_request_key = g.logical_request_key
            )
        """,
    ),
    Check(
        invariant="I8",
        name="tombstone-of-used-grant",
        sentence="what the outbox gives back is not in use",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key,
                'is given back, grant ' || g.grant_id || ' is ' || g.status
            FROM {grant_releases} r JOIN {operation_grants} g
                ON g.operation = r.operation AND g.logical_request_key = r.logical_request_key
            WHERE g.status <> 'released'
        """,
    ),
)

_RESERVATIONS: Final = (
    Check(
        invariant="I7",
        name="grant-without-reservation",
        sentence="what the quota policy granted is reserved there, and spent where the grant says so",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is ' || g.status || ', its reservation is ' ||
                CASE WHEN r.scope_id IS NULL THEN 'missing' ELSE 'not spent' END
            FROM {operation_grants} g LEFT JOIN {policy_reservations} r
                ON r.operation = g.operation AND r.logical_request_key = g.logical_request_key
            WHERE g.status IN ('acquired', 'committed') AND g.reservation = 'quota:' || g.fingerprint
              AND (r.scope_id IS NULL OR (g.status = 'committed' AND num_nulls(r.committed_at, r.returned_at) = 2))
              AND EXISTS (SELECT FROM {policy_reservations} any_of_them)
        """,
    ),
    Check(
        invariant="I8",
        name="returned-in-use",
        sentence="the quota policy counts what a grant still uses",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key,
                'was returned, grant ' || g.grant_id || ' is ' || g.status
            FROM {policy_reservations} r JOIN {operation_grants} g
                ON g.operation = r.operation AND g.logical_request_key = r.logical_request_key
            WHERE r.returned_at IS NOT NULL AND g.status <> 'released'
        """,
    ),
    Check(
        invariant="I8",
        name="reserved-after-release",
        sentence="the quota policy does not count what it was told to release",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key,
                'was given back ' || o.done_at || ' and is still counted'
            FROM {policy_reservations} r JOIN {grant_releases} o
                ON o.operation = r.operation AND o.logical_request_key = r.logical_request_key
            WHERE r.returned_at IS NULL AND o.done_at IS NOT NULL
        """,
    ),
    Check(
        invariant="I8",
        name="reserved-for-nobody",
        sentence="the quota policy counts nothing for a job that is over and never used it",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key,
                'is reserved, its job is ' || j.status || ' without a grant'
            FROM {policy_reservations} r JOIN {image_processing_jobs} j
                ON r.logical_request_key = j.job_id || ':agent'
            WHERE r.operation = 'analysis.agent' AND r.returned_at IS NULL AND j.status NOT IN ('queued', 'running')
              AND NOT EXISTS (
                SELECT FROM {operation_grants} g
                WHERE g.operation = r.operation AND g.logical_request_key = r.logical_request_key
              )
              AND NOT EXISTS (
                SELECT FROM {grant_releases} o
                WHERE o.operation = r.operation AND o.logical_request_key = r.logical_request_key
              )
        """,
    ),
)

_EVIDENCE: Final = (
    Check(
        invariant="I4",
        name="late-result",
        sentence="a late result is of an attempt that was made, and of a claim that its task has seen",
        sql="""
            SELECT 'late result of task ' || l.task_id, 'generation ' || l.generation || CASE
                WHEN a.attempt_id IS NULL THEN ', no such attempt' ELSE ', the task has ' || t.claim_generation END
            FROM {late_results} l JOIN {tasks} t ON t.task_id = l.task_id
                LEFT JOIN {task_attempts} a ON a.task_id = l.task_id AND a.attempt_id = l.attempt_id
            WHERE a.attempt_id IS NULL OR l.generation > t.claim_generation
        """,
    ),
    Check(
        invariant="I9",
        name="resolution",
        sentence="what a person resolved is an attempt that ended as unknown",
        sql="""
            SELECT 'resolution of task ' || r.task_id, coalesce('its attempt is ' || a.status, 'no such attempt')
            FROM {execution_resolutions} r
                LEFT JOIN {task_attempts} a ON a.task_id = r.task_id AND a.attempt_id = r.attempt_id
            WHERE a.status IS DISTINCT FROM 'unknown_execution'
        """,
    ),
)

PERMISSION: Final = (*_GRANTS, *_RELEASES, *_RESERVATIONS, *_EVIDENCE)

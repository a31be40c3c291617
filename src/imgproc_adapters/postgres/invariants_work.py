"""Checks of jobs, stages, tasks and attempts: I2-I6, I9-I11, I13."""

from typing import Final

from imgproc_adapters.postgres.invariants_check import Check

_ACTIVE: Final = (
    Check(
        invariant="I2",
        name="one-active-job",
        sentence="a meme has at most one active job",
        sql="""
            SELECT 'meme ' || j.meme_id, count(*) || ' active jobs' FROM {image_processing_jobs} j
            WHERE j.status IN ('queued', 'running') GROUP BY j.meme_id HAVING count(*) > 1
        """,
    ),
    Check(
        invariant="I2",
        name="one-active-task",
        sentence="a picture version has at most one active task of a type",
        sql="""
            SELECT 'meme ' || t.meme_id, count(*) || ' active tasks of type ' || t.task_type FROM {tasks} t
            WHERE t.status IN ('queued', 'running') AND t.meme_id IS NOT NULL
            GROUP BY t.meme_id, t.image_sha256, t.task_type HAVING count(*) > 1
        """,
    ),
)

_CLAIMS: Final = (
    Check(
        invariant="I3",
        name="claims-counted",
        sentence="a task was begun exactly if it was claimed",
        sql="""
            SELECT 'task ' || t.task_id, 'generation ' || t.claim_generation || ', begun ' ||
                coalesce(t.started_at::text, 'never')
            FROM {tasks} t WHERE (t.started_at IS NULL) <> (t.claim_generation = 0)
        """,
    ),
    Check(
        invariant="I3",
        name="attempt-of-a-claim",
        sentence="an attempt belongs to a claim that its task has seen",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'generation ' || a.generation || ', the task has ' || t.claim_generation
            FROM {task_attempts} a JOIN {tasks} t ON t.task_id = a.task_id
            WHERE a.generation < 1 OR a.generation > t.claim_generation
        """,
    ),
    Check(
        invariant="I3",
        name="generations-rise",
        sentence="each attempt of a task belongs to a later claim than the one before it",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'generation ' || a.generation || ' after ' || a.former
            FROM (
                SELECT task_id, attempt_no, generation,
                    lag(generation) OVER (PARTITION BY task_id ORDER BY attempt_no) AS former
                FROM {task_attempts} made
            ) a WHERE a.former >= a.generation
        """,
    ),
    Check(
        invariant="I4",
        name="running-attempt",
        sentence="a running task has a live attempt of its present claim",
        sql="""
            SELECT 'task ' || t.task_id, 'no live attempt of generation ' || t.claim_generation FROM {tasks} t
            WHERE t.status = 'running' AND t.meme_id IS NOT NULL AND NOT EXISTS (
                SELECT FROM {task_attempts} a
                WHERE a.task_id = t.task_id AND a.generation = t.claim_generation
                  AND a.status IN ('prepared', 'grant_committed', 'external_started')
            )
        """,
    ),
)

_ATTEMPTS: Final = (
    Check(
        invariant="I6",
        name="attempts-counted",
        sentence="the attempts of a task are counted from 1",
        sql="""
            SELECT 'task ' || a.task_id, count(*) || ' attempts, numbered ' || min(a.attempt_no) || ' to ' ||
                max(a.attempt_no)
            FROM {task_attempts} a GROUP BY a.task_id
            HAVING min(a.attempt_no) <> 1 OR max(a.attempt_no) <> count(*)
        """,
    ),
    Check(
        invariant="I6",
        name="attempt-behind-another",
        sentence="another attempt follows only one whose outcome is known",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id, 'is ' || a.status || ' and was followed'
            FROM (
                SELECT task_id, attempt_no, status,
                    lead(attempt_no) OVER (PARTITION BY task_id ORDER BY attempt_no) AS follower
                FROM {task_attempts} made
            ) a WHERE a.follower IS NOT NULL AND a.status NOT IN ('completed', 'failed')
        """,
    ),
    Check(
        invariant="I6",
        name="attempt-outlives-task",
        sentence="no attempt outlives its task",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'is ' || a.status || ', the task is ' || t.status
            FROM {task_attempts} a JOIN {tasks} t ON t.task_id = a.task_id
            WHERE a.status IN ('prepared', 'grant_committed', 'external_started')
              AND t.status NOT IN ('queued', 'running')
        """,
    ),
    Check(
        invariant="I7",
        name="start-recorded",
        sentence="the start of a call is recorded before anything can follow from it",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'is ' || a.status || ', started ' || coalesce(a.external_started_at::text, 'never')
            FROM {task_attempts} a
            WHERE a.status <> 'failed'
              AND (a.status IN ('prepared', 'grant_committed')) <> (a.external_started_at IS NULL)
        """,
    ),
)

_UNKNOWN: Final = (
    Check(
        invariant="I9",
        name="unknown-task",
        sentence="a task ends as unknown exactly if one of its attempts did",
        sql="""
            SELECT 'task ' || t.task_id, 'is ' || t.status || coalesce(' with ' || t.error_code, '') ||
                CASE WHEN u.task_id IS NULL THEN ', no' ELSE ', an' END || ' attempt is unknown'
            FROM {tasks} t LEFT JOIN (
                SELECT DISTINCT task_id FROM {task_attempts} a WHERE a.status = 'unknown_execution'
            ) u ON u.task_id = t.task_id
            WHERE (u.task_id IS NOT NULL) <> {is_unknown}
        """,
    ),
    Check(
        invariant="I9",
        name="unknown-stage",
        sentence="a stage is unknown exactly if its task is, unless its job was closed before",
        sql="""
            SELECT s.stage || ' stage of job ' || s.job_id,
                'is ' || s.status || coalesce(' with ' || s.error_code, '') || ', its task is ' || t.status ||
                coalesce(' with ' || t.error_code, '')
            FROM {image_processing_stages} s JOIN {tasks} t ON t.task_id = s.task_id
            WHERE t.status NOT IN ('queued', 'running') AND s.status <> 'running'
              AND (s.status = 'unknown_execution') <> {is_unknown}
              AND NOT (s.status = 'failed' AND s.error_code IN ('target_changed', 'configuration_changed'))
        """,
    ),
    # whether a person asked for a job that was opened later is not stored
    Check(
        invariant="I9",
        name="unknown-repeated",
        sentence="no job that was there when a call for its picture became unknown makes that call again",
        sql="""
            SELECT 'task ' || t.task_id, 'repeats task ' || u.task_id || ', unknown since ' || u.completed_at ||
                ', job ' || j.job_id || ' is from ' || j.created_at
            FROM (
                SELECT task_id, meme_id, image_sha256, reverse_image_policy, completed_at FROM {tasks} t
                WHERE t.task_type = 'meme_context_generation' AND {is_unknown}
            ) u JOIN {tasks} t ON t.task_type = 'meme_context_generation' AND t.created_at >= u.completed_at
                AND (t.meme_id, t.image_sha256, t.reverse_image_policy) =
                    (u.meme_id, u.image_sha256, u.reverse_image_policy)
                JOIN {image_processing_jobs} j ON j.job_id = t.job_id
            WHERE j.created_at < u.completed_at
        """,
    ),
    Check(
        invariant="I9",
        name="unknown-job",
        sentence="a job is unknown or blocked exactly if one of its stages is",
        sql="""
            SELECT 'job ' || j.job_id, 'is ' || j.status || ', its stages are ' || s.statuses
            FROM {image_processing_jobs} j JOIN (
                SELECT job_id, string_agg(status, ', ') AS statuses, bool_or(status = 'unknown_execution') AS unknown,
                    bool_or(status = 'blocked') AS blocked
                FROM {image_processing_stages} each GROUP BY job_id
            ) s ON s.job_id = j.job_id
            WHERE (j.status = 'unknown_execution') <> s.unknown OR (j.status = 'blocked') <> s.blocked
        """,
    ),
)

_ENDS: Final = (
    Check(
        invariant="I10",
        name="over-and-at-rest",
        sentence="what is over has an end, and nobody holds it or looks at it again; what is not over has none",
        sql="""
            SELECT 'job ' || j.job_id, 'is ' || j.status || ', ended ' || coalesce(j.completed_at::text, 'never') ||
                coalesce(', held by ' || j.lease_owner, '') || coalesce(', due ' || j.due_at, '')
            FROM {image_processing_jobs} j
            WHERE (j.status IN ('queued', 'running')) <> (j.completed_at IS NULL)
               OR (j.completed_at IS NOT NULL AND (j.lease_owner IS NOT NULL OR j.due_at IS NOT NULL))
            UNION ALL
            SELECT 'task ' || t.task_id, 'is ' || t.status || ', ended ' || coalesce(t.completed_at::text, 'never') ||
                coalesce(', held by ' || t.lease_owner, '')
            FROM {tasks} t
            WHERE (t.status IN ('queued', 'running')) <> (t.completed_at IS NULL)
               OR (t.status = 'running') <> (t.lease_owner IS NOT NULL)
            UNION ALL
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'is ' || a.status || ', ended ' || coalesce(a.completed_at::text, 'never')
            FROM {task_attempts} a
            WHERE (a.status IN ('prepared', 'grant_committed', 'external_started')) <> (a.completed_at IS NULL)
        """,
    ),
    Check(
        invariant="I10",
        name="newest-job",
        sentence="only the newest revision of a meme's jobs can be active, and no revision is there twice",
        # not all of them are there: superseded ones may have been pruned
        sql="""
            SELECT 'meme ' || j.meme_id, count(*) || ' jobs, revisions ' || min(j.revision) || ' to ' ||
                max(j.revision) || coalesce(', active ' || min(j.revision) FILTER (WHERE j.completed_at IS NULL), '')
            FROM {image_processing_jobs} j GROUP BY j.meme_id
            HAVING min(j.revision) < 1 OR count(DISTINCT j.revision) <> count(*)
                OR min(j.revision) FILTER (WHERE j.completed_at IS NULL) < max(j.revision)
        """,
    ),
)

_STAGES: Final = (
    Check(
        invariant="I11",
        name="three-stages",
        sentence="a job has its three stages",
        sql="""
            SELECT 'job ' || j.job_id, 'has ' || coalesce(s.found, 0) || ' stages'
            FROM {image_processing_jobs} j LEFT JOIN (
                SELECT job_id, count(*) AS found FROM {image_processing_stages} each GROUP BY job_id
            ) s ON s.job_id = j.job_id WHERE s.found IS DISTINCT FROM 3
        """,
    ),
    Check(
        invariant="I11",
        name="stages-in-order",
        sentence="a stage begins only behind stages that succeeded, and a job succeeds only with all of them",
        sql="""
            SELECT 'job ' || j.job_id, 'is ' || j.status || ': ' || s.statuses
            FROM {image_processing_jobs} j JOIN (
                SELECT job_id, string_agg(status, ', ' ORDER BY place) AS statuses,
                    coalesce(max(place) FILTER (WHERE status <> 'queued'), 0) AS begun,
                    coalesce(min(place) FILTER (WHERE status <> 'succeeded'), 4) AS reached
                FROM (
                    SELECT job_id, status, array_position(ARRAY['visual', 'agent', 'text_embedding'], stage) AS place
                    FROM {image_processing_stages} each
                ) placed GROUP BY job_id
            ) s ON s.job_id = j.job_id
            WHERE s.begun > s.reached OR (j.status = 'succeeded' AND s.reached <= 3)
        """,
    ),
    Check(
        invariant="I11",
        name="running-stage",
        sentence="a stage runs exactly as long as its live task does, in a job that runs",
        sql="""
            SELECT s.stage || ' stage of job ' || s.job_id,
                'runs, its job is ' || j.status || ', its task ' || coalesce(t.status, 'missing')
            FROM {image_processing_stages} s JOIN {image_processing_jobs} j ON j.job_id = s.job_id
                LEFT JOIN {tasks} t ON t.task_id = s.task_id
            WHERE s.status = 'running'
              AND (j.status <> 'running' OR coalesce(t.status, 'missing') NOT IN ('queued', 'running'))
        """,
    ),
    Check(
        invariant="I11",
        name="awaited-task",
        sentence="a live task of a live job is the one its running stage waits for",
        sql="""
            SELECT 'task ' || t.task_id, 'is ' || t.status || ', no running stage of job ' || t.job_id ||
                ' waits for it'
            FROM {tasks} t JOIN {image_processing_jobs} j ON j.job_id = t.job_id
            WHERE t.status IN ('queued', 'running') AND j.status IN ('queued', 'running') AND NOT EXISTS (
                SELECT FROM {image_processing_stages} s
                WHERE s.job_id = t.job_id AND s.task_id = t.task_id AND s.status = 'running'
            )
        """,
    ),
    Check(
        invariant="I11",
        name="task-of-stage",
        sentence="the task of a stage is of its job and kind",
        sql="""
            SELECT s.stage || ' stage of job ' || s.job_id,
                'has task ' || t.task_id || ', a ' || t.task_type || coalesce(' of job ' || t.job_id, '')
            FROM {image_processing_stages} s JOIN {tasks} t ON t.task_id = s.task_id
            WHERE t.job_id IS DISTINCT FROM s.job_id OR t.task_type <> CASE s.stage
                WHEN 'visual' THEN 'visual_embedding_generation' WHEN 'agent' THEN 'meme_context_generation'
                ELSE 'text_embedding_generation' END
        """,
    ),
    Check(
        invariant="I11",
        name="product-of-stage",
        sentence="a stage that succeeded left a product of its picture version, as long as that is its meme's picture",
        # vectors of former pictures may have been pruned
        sql="""
            SELECT s.stage || ' stage of job ' || s.job_id, 'succeeded, nothing is stored for meme ' || j.meme_id
            FROM {image_processing_stages} s JOIN {image_processing_jobs} j ON j.job_id = s.job_id
                JOIN {memes} m ON m.meme_id = j.meme_id AND m.image_sha256 = j.image_sha256
                LEFT JOIN (SELECT DISTINCT meme_id, image_sha256 FROM {visual_embeddings} made) v
                    ON s.stage = 'visual' AND v.meme_id = j.meme_id AND v.image_sha256 = j.image_sha256
                LEFT JOIN {meme_contexts} c ON s.stage = 'agent' AND c.meme_id = j.meme_id
                LEFT JOIN (SELECT DISTINCT meme_id, image_sha256 FROM {text_embeddings} made) e
                    ON s.stage = 'text_embedding' AND e.meme_id = j.meme_id AND e.image_sha256 = j.image_sha256
            WHERE s.status = 'succeeded' AND num_nonnulls(v.meme_id, c.meme_id, e.meme_id) = 0
        """,
    ),
)

_TARGETS: Final = (
    Check(
        invariant="I5",
        name="version-of-task",
        sentence="a task works on its job's picture version",
        sql="""
            SELECT 'task ' || t.task_id, 'is for another picture than job ' || j.job_id
            FROM {tasks} t JOIN {image_processing_jobs} j ON j.job_id = t.job_id
            WHERE (t.meme_id, t.image_sha256) IS DISTINCT FROM (j.meme_id, j.image_sha256)
        """,
    ),
    Check(
        invariant="I13",
        name="policy-of-task",
        sentence="a task works under its job's policy and configuration",
        sql="""
            SELECT 'task ' || t.task_id, 'is ' || t.reverse_image_policy || ' of ' || t.config_fingerprint ||
                ', its job is ' || j.reverse_image_policy || ' of ' || j.config_fingerprint
            FROM {tasks} t JOIN {image_processing_jobs} j ON j.job_id = t.job_id
            WHERE (t.reverse_image_policy, t.config_fingerprint)
                IS DISTINCT FROM (j.reverse_image_policy, j.config_fingerprint)
        """,
    ),
)

WORK: Final = (*_ACTIVE, *_CLAIMS, *_ATTEMPTS, *_UNKNOWN, *_ENDS, *_STAGES, *_TARGETS)

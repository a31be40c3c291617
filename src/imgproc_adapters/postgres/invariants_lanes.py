"""Checks of the slots that bound a lane (I18), of progress, and of what may be left when nothing runs."""

from typing import Final

from imgproc_adapters.postgres.invariants_check import Check

_SLOTS: Final = (
    Check(
        invariant="I18",
        name="slots-numbered",
        sentence="the slots of a lane, those beyond its limit aside, are numbered from 1",
        sql="""
            SELECT 'lane ' || s.lane, count(*) || ' slots, numbered ' || min(s.number) || ' to ' || max(s.number)
            FROM lane_slots s WHERE NOT s.surplus GROUP BY s.lane
            HAVING min(s.number) <> 1 OR max(s.number) <> count(*)
        """,
        scoped=False,
    ),
    Check(
        invariant="I18",
        name="one-slot-a-claim",
        sentence="a claim holds one slot",
        sql="""
            SELECT 'task ' || s.task_id, count(*) || ' slots of lane ' || s.lane || ' under generation ' || s.generation
            FROM {lane_slots} s GROUP BY s.lane, s.task_id, s.generation HAVING count(*) > 1
        """,
    ),
    Check(
        invariant="I18",
        name="leaked-slot",
        sentence="a slot is held by a running task under its present claim, or until a time",
        sql="""
            SELECT 'slot ' || s.number || ' of lane ' || s.lane,
                'is held by generation ' || s.generation || ' of task ' || s.task_id ||
                ', which is ' || coalesce(t.status || ' under ' || t.claim_generation, 'missing')
            FROM {lane_slots} s LEFT JOIN {tasks} t ON t.task_id = s.task_id
            WHERE s.free_at IS NULL
              AND (t.status, t.claim_generation) IS DISTINCT FROM ('running', s.generation)
        """,
    ),
    Check(
        invariant="I18",
        name="slot-without-call",
        sentence="a slot that waits does so for a call, and not beyond that call's hard deadline",
        sql="""
            SELECT 'slot ' || s.number || ' of lane ' || s.lane,
                'waits until ' || s.free_at || ' for task ' || s.task_id
            FROM {lane_slots} s LEFT JOIN (
                SELECT task_id, max(hard_deadline_at) AS latest FROM {task_attempts} made GROUP BY task_id
            ) a ON a.task_id = s.task_id
            WHERE s.free_at IS NOT NULL AND (a.latest IS NULL OR s.free_at > a.latest)
        """,
    ),
    Check(
        invariant="I18",
        name="running-without-slot",
        sentence="a running agent task holds a slot",
        sql="""
            SELECT 'task ' || t.task_id, 'runs without a slot' FROM {tasks} t
            WHERE t.task_type = 'meme_context_generation' AND t.status = 'running' AND NOT EXISTS (
                SELECT FROM {lane_slots} s
                WHERE s.lane = 'agent' AND s.task_id = t.task_id AND s.generation = t.claim_generation
                  AND s.free_at IS NULL
            )
        """,
    ),
    Check(
        invariant="I18",
        name="call-without-slot",
        sentence="an agent call that may be running has a slot, unless a person vouched for its end",
        sql="""
            SELECT 'attempt ' || a.attempt_no || ' of task ' || a.task_id,
                'is ' || a.status || ' and may be running until ' || a.hard_deadline_at
            FROM {task_attempts} a JOIN {tasks} t ON t.task_id = a.task_id
            WHERE t.task_type = 'meme_context_generation' AND a.status IN ('external_started', 'unknown_execution')
              AND a.hard_deadline_at > {now}
              AND NOT EXISTS (
                SELECT FROM {lane_slots} s
                WHERE s.lane = 'agent' AND s.task_id = a.task_id AND (s.free_at IS NULL OR s.free_at > {now})
              )
              AND NOT EXISTS (
                SELECT FROM {execution_resolutions} r
                WHERE r.task_id = a.task_id AND r.attempt_id = a.attempt_id AND r.owner_dead AND r.call_over
              )
        """,
    ),
)

_PROGRESS: Final = (
    Check(
        invariant="progress",
        name="lost-job",
        sentence="a live job is due, or one of its stages runs",
        sql="""
            SELECT 'job ' || j.job_id, 'is ' || j.status || ', and nobody will look at it again'
            FROM {image_processing_jobs} j
            WHERE j.status IN ('queued', 'running') AND j.due_at IS NULL AND NOT EXISTS (
                SELECT FROM {image_processing_stages} s WHERE s.job_id = j.job_id AND s.status = 'running'
            )
        """,
    ),
    Check(
        invariant="progress",
        name="overdue-job",
        sentence="a due job is looked at before long",
        sql="""
            SELECT 'job ' || j.job_id, 'is due since ' || j.due_at FROM {image_processing_jobs} j
            WHERE j.due_at < {stale} AND coalesce(j.lease_expires_at, '-infinity') < {stale}
        """,
        warning=True,
    ),
    Check(
        invariant="progress",
        name="expired-lease",
        sentence="a lease that ran out is taken away before long",
        sql="""
            SELECT 'task ' || t.task_id,
                'is held by ' || t.lease_owner || ', whose lease ran out ' || t.lease_expires_at
            FROM {tasks} t WHERE t.status = 'running' AND t.lease_expires_at < {stale}
        """,
        warning=True,
    ),
    Check(
        invariant="progress",
        name="task-of-ended-job",
        sentence="a queued task whose job is over is dropped before long",
        sql="""
            SELECT 'task ' || t.task_id, 'is queued, its job ' || j.job_id || ' is ' || j.status
            FROM {tasks} t JOIN {image_processing_jobs} j ON j.job_id = t.job_id
            WHERE t.status = 'queued' AND j.status NOT IN ('queued', 'running')
              AND j.completed_at < {stale} AND t.available_at < {stale}
        """,
        warning=True,
    ),
    Check(
        invariant="progress",
        name="pending-release",
        sentence="the operation policy hears of a release before long",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key, 'is in the outbox since ' || r.created_at
            FROM {grant_releases} r WHERE r.done_at IS NULL AND r.created_at < {stale}
        """,
        warning=True,
    ),
)

_REST: Final = (
    Check(
        invariant="rest",
        name="no-live-job",
        sentence="no job is live",
        sql="""
            SELECT 'job ' || j.job_id, 'is ' || j.status FROM {image_processing_jobs} j
            WHERE j.status IN ('queued', 'running')
        """,
        quiescent=True,
    ),
    Check(
        invariant="rest",
        name="no-live-task",
        sentence="no task is live",
        sql="""
            SELECT 'task ' || t.task_id, 'is ' || t.status || ', a ' || t.task_type FROM {tasks} t
            WHERE t.status IN ('queued', 'running')
        """,
        quiescent=True,
    ),
    Check(
        invariant="rest",
        name="no-acquired-grant",
        sentence="every grant was spent or given back",
        sql="""
            SELECT 'grant ' || g.grant_id, 'is acquired for task ' || g.task_id FROM {operation_grants} g
            WHERE g.status = 'acquired'
        """,
        quiescent=True,
    ),
    Check(
        invariant="rest",
        name="no-pending-release",
        sentence="the outbox is empty",
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key, 'is in the outbox since ' || r.created_at
            FROM {grant_releases} r WHERE r.done_at IS NULL
        """,
        quiescent=True,
    ),
    Check(
        invariant="rest",
        name="no-open-reservation",
        sentence="every reservation for an agent was spent or given back",
        # one for an upload may outlive a crash: see docs/adr/0009
        sql="""
            SELECT r.operation || ' ' || r.logical_request_key, 'is reserved since ' || r.acquired_at
            FROM {policy_reservations} r
            WHERE r.operation = 'analysis.agent' AND num_nulls(r.committed_at, r.returned_at) = 2
        """,
        quiescent=True,
    ),
    Check(
        invariant="rest",
        name="no-held-slot",
        sentence="every slot is free",
        sql="""
            SELECT 'slot ' || s.number || ' of lane ' || s.lane,
                'is held for task ' || s.task_id || coalesce(' until ' || s.free_at, '')
            FROM {lane_slots} s WHERE s.free_at IS NULL OR s.free_at > {now}
        """,
        quiescent=True,
    ),
)

LANES: Final = (*_SLOTS, *_PROGRESS, *_REST)

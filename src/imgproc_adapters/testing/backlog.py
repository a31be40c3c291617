"""A queue of any length, put in place by SQL: the rows that the use cases would have left, in less of the time."""

from collections.abc import Mapping
from typing import Any, Final

import psycopg

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.notify import CHANNEL
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.lane import LaneLimits
from imgproc_domain.policy import Decision, Granted, Operation, OperationRequest
from imgproc_domain.ports.observer import Observer
from imgproc_domain.ports.unit_of_work import UnitOfWork
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, TASK_TYPE_OF, Lane, Stage
from imgproc_domain.usecases.deployment import Deployment, Limits

_ROWS: Final = b"""
    CREATE TEMPORARY TABLE backlog ON COMMIT DROP AS
    SELECT gen_random_uuid() AS meme, gen_random_uuid() AS job, gen_random_uuid() AS task,
        CASE WHEN %(stage)s::text = 'agent' THEN gen_random_uuid() END AS permission,
        md5(n::text || random()) || md5(n::text || random()) AS sha256
    FROM generate_series(1, %(count)s) AS n
"""
_SCOPE: Final = b"INSERT INTO scopes (scope_id, created_at) VALUES (%(scope)s, now()) ON CONFLICT DO NOTHING"
_MEMES: Final = b"""
    INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
        storage_key, created_at, updated_at)
    SELECT %(scope)s, meme, sha256 || '.png', sha256, 'image/png', 1, 1, 1, 1, sha256, now(), now() FROM backlog
"""
_JOBS: Final = b"""
    INSERT INTO image_processing_jobs (scope_id, job_id, meme_id, revision, image_sha256, reverse_image_policy,
        config_fingerprint, status, created_at, updated_at, claim_generation)
    SELECT %(scope)s, job, meme, 1, sha256, 'forbid', %(config)s, 'running', now(), now(), 0 FROM backlog
"""
_STAGES: Final = b"""
    INSERT INTO image_processing_stages (scope_id, job_id, stage, status, reused, task_id)
    SELECT %(scope)s, job, s.stage,
        CASE WHEN s.stage = %(stage)s THEN 'running' WHEN s.stage = ANY (%(done)s) THEN 'succeeded' ELSE 'queued' END,
        s.stage = ANY (%(done)s), CASE WHEN s.stage = %(stage)s THEN task END
    FROM backlog, unnest(%(stages)s::text[]) AS s (stage)
"""
_VISUAL: Final = b"""
    INSERT INTO visual_embeddings (scope_id, meme_id, image_sha256, space_id, dimension, embedding, created_at)
    SELECT %(scope)s, meme, sha256, %(space)s, %(dimension)s, array_fill(0.1::real, ARRAY[%(dimension)s])::halfvec,
        now()
    FROM backlog
"""
_GRANTS: Final = b"""
    INSERT INTO operation_grants (scope_id, grant_id, operation, logical_request_key, fingerprint, reservation,
        task_id, job_id, status, created_at, updated_at)
    SELECT %(scope)s, permission, %(operation)s, permission::text, sha256, permission::text, task, job, 'acquired',
        now(), now()
    FROM backlog
"""
_TASKS: Final = b"""
    INSERT INTO tasks (scope_id, task_id, task_type, status, job_id, meme_id, image_sha256, config_fingerprint,
        reverse_image_policy, grant_id, claim_generation, available_at, failures, lease_losses, created_at)
    SELECT %(scope)s, task, %(type)s, 'queued', job, meme, sha256, %(config)s, 'forbid', permission, 0,
        statement_timestamp(), 0, 0, statement_timestamp()
    FROM backlog
"""
_RING: Final = b"SELECT pg_notify(%(channel)s, %(type)s)"


def queue_tasks(
    connection: psycopg.Connection[Any], scope: Scope, stage: Stage, count: int, config: ProcessingConfig
) -> None:
    """Queue so many visual or agent tasks in a scope, each of a picture and a job of its own, in one transaction.

    Agent tasks have grants that `BacklogPolicy` commits.
    """
    assert stage is not Stage.TEXT, "a text task needs a context"
    agent = stage is Stage.AGENT
    values = {
        "scope": scope,
        "stage": stage.value,
        "stages": [each.value for each in STAGES],
        "done": [each.value for each in STAGES[: STAGES.index(stage)]],
        "type": TASK_TYPE_OF[stage].value,
        "count": count,
        "config": config.fingerprint,
        "space": config.visual.id,
        "dimension": config.visual.dimension,
        "operation": Operation.ANALYSIS_AGENT.value,
        "channel": CHANNEL,
    }
    # the tasks come last, so that the time since which they are available is that of their commit as nearly as may be
    products = (_VISUAL, _GRANTS) if agent else ()
    with connection.transaction():
        for statement in (_ROWS, _SCOPE, _MEMES, _JOBS, *products, _STAGES, _TASKS, _RING):
            connection.execute(statement, values)


def backlog_deployment(uow: UnitOfWork, lanes: Mapping[Lane, int], observer: Observer) -> Deployment:
    """Return a deployment whose stages take no time, for the tasks of `queue_tasks`."""
    return Deployment(
        uow=uow,
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(),
        policy=BacklogPolicy(),
        ids=SystemIds(),
        observer=observer,
        limits=Limits(lanes=LaneLimits(lanes)),
    )


class BacklogPolicy(AllowAllPolicy):
    """Allows everything, and commits also what it never reserved: the grants of a backlog."""

    def commit_now(self, request: OperationRequest, reservation: str) -> Decision:  # noqa: ARG002 - the port's signature
        return Granted(reservation)

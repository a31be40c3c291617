"""Between rows and the domain's values. Each column list names the order its reader expects, under its alias."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from imgproc_adapters.postgres.arrays import Bools, Ints, Texts, Times, Uuids
from imgproc_adapters.postgres.changes import ERROR, Columns
from imgproc_adapters.postgres.converter import CONVERTER
from imgproc_adapters.postgres.session import Row
from imgproc_domain.attempt import Attempt, AttemptStatus
from imgproc_domain.claim import UNCLAIMED, Lease
from imgproc_domain.context import Context, ContextStatus, Description, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.grant import Grant, GrantStatus
from imgproc_domain.ids import JobId, Sha256, WorkerId
from imgproc_domain.job import Job, JobStatus, StageState
from imgproc_domain.meme import Meme, Picture
from imgproc_domain.policy import Operation
from imgproc_domain.scope import Scope
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage, TaskType
from imgproc_domain.task import Target, Task, TaskStatus


def _columns(alias: str, names: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in names.split())


TASK: Final = _columns(
    "t",
    "task_id task_type status job_id meme_id image_sha256 config_fingerprint reverse_image_policy grant_id"
    " claim_generation lease_owner lease_expires_at available_at failures lease_losses"
    " created_at started_at completed_at error_code error_message",
)
JOB: Final = _columns(
    "j",
    "job_id meme_id revision image_sha256 reverse_image_policy config_fingerprint status created_at updated_at due_at"
    " claim_generation lease_owner lease_expires_at completed_at error_code error_message retry_at",
)
STAGE: Final = _columns("s", "job_id stage status reused task_id error_code error_message retry_at")
ATTEMPT: Final = _columns(
    "a",
    "task_id attempt_no attempt_id request_id session_id generation status input_digest created_at"
    " external_started_at hard_deadline_at completed_at error_code error_message",
)
GRANT: Final = _columns(
    "g",
    "grant_id operation logical_request_key fingerprint reservation task_id job_id status created_at updated_at",
)
MEME: Final = _columns(
    "m",
    "meme_id filename image_sha256 media_type byte_size width height frames storage_key"
    " created_at updated_at deleted_at",
)
CONTEXT: Final = "c.meme_id, c.status, c.revision, c.description::text, c.provenance::text, c.updated_at"

_POLICIES: Final = {policy.value: policy for policy in ReverseImagePolicy}
_TASK_TYPES: Final = {kind.value: kind for kind in TaskType}
_TASK_STATUSES: Final = {status.value: status for status in TaskStatus}
_JOB_STATUSES: Final = {status.value: status for status in JobStatus}
_STAGES: Final = {stage.value: stage for stage in Stage}
_ATTEMPT_STATUSES: Final = {status.value: status for status in AttemptStatus}
_GRANT_STATUSES: Final = {status.value: status for status in GrantStatus}
_CONTEXT_STATUSES: Final = {status.value: status for status in ContextStatus}
_OPERATIONS: Final = {operation.value: operation for operation in Operation}


def _error(code: str | None, message: str | None) -> Diagnosis | None:
    return None if code is None else Diagnosis(ErrorCode(code), message or "")


def _lease(generation: int, owner: str | None, expires_at: datetime | None) -> Lease:
    return Lease(generation, None if owner is None else WorkerId(owner), expires_at)


def task_of(scope: Scope, row: Row) -> Task:
    return Task(
        scope=scope,
        task_id=row[0],
        task_type=_TASK_TYPES[row[1]],
        status=_TASK_STATUSES[row[2]],
        target=None if row[3] is None else Target(row[3], row[4], Sha256(row[5]), row[6], _POLICIES[row[7]]),
        grant_id=row[8],
        lease=_lease(row[9], row[10], row[11]),
        available_at=row[12],
        failures=row[13],
        lease_losses=row[14],
        created_at=row[15],
        started_at=row[16],
        completed_at=row[17],
        error=_error(row[18], row[19]),
    )


TASK_COLUMNS: Final[Columns] = {
    "status": "status",
    "grant_id": "grant_id",
    "available_at": "available_at",
    "failures": "failures",
    "lease_losses": "lease_losses",
    "started_at": "started_at",
    "completed_at": "completed_at",
    "claim_generation": "lease.generation",
    "lease_owner": "lease.owner",
    "lease_expires_at": "lease.expires_at",
    ERROR: "error",
}


def task_state(tasks: Sequence[Task]) -> dict[str, object]:
    """The columns of tasks that change, as arrays in the order of ``tasks``."""
    return {
        "ids": Uuids(t.task_id for t in tasks),
        "status": Texts(t.status for t in tasks),
        "grant_id": Uuids(t.grant_id for t in tasks),
        "available_at": Times(t.available_at for t in tasks),
        "failures": Ints(t.failures for t in tasks),
        "lease_losses": Ints(t.lease_losses for t in tasks),
        "started_at": Times(t.started_at for t in tasks),
        "completed_at": Times(t.completed_at for t in tasks),
        **_lease_arrays([t.lease for t in tasks]),
        **_error_arrays([t.error for t in tasks]),
    }


def task_identity(tasks: Sequence[Task]) -> dict[str, object]:
    """The columns of tasks that never change; a maintenance task has no target."""
    targets = [t.target for t in tasks]
    return {
        "task_type": Texts(t.task_type for t in tasks),
        "job_id": Uuids(None if x is None else x.job_id for x in targets),
        "meme_id": Uuids(None if x is None else x.meme_id for x in targets),
        "image_sha256": Texts(None if x is None else x.image_sha256.hex for x in targets),
        "config_fingerprint": Texts(None if x is None else x.config_fingerprint for x in targets),
        "reverse_image_policy": Texts(None if x is None else x.reverse_image_policy for x in targets),
        "created_at": Times(t.created_at for t in tasks),
    }


def job_of(scope: Scope, row: Row, stages: tuple[StageState, ...]) -> Job:
    return Job(
        scope=scope,
        job_id=row[0],
        meme_id=row[1],
        revision=row[2],
        image_sha256=Sha256(row[3]),
        reverse_image_policy=_POLICIES[row[4]],
        config_fingerprint=row[5],
        status=_JOB_STATUSES[row[6]],
        stages=stages,
        created_at=row[7],
        updated_at=row[8],
        due_at=row[9],
        lease=_lease(row[10], row[11], row[12]) if row[10] else UNCLAIMED,
        completed_at=row[13],
        error=_error(row[14], row[15]),
        retry_at=row[16],
    )


def stage_of(row: Row) -> StageState:
    return StageState(_STAGES[row[1]], _JOB_STATUSES[row[2]], row[3], row[4], _error(row[5], row[6]), row[7])


def in_order(stages: Mapping[Stage, StageState]) -> tuple[StageState, ...]:
    return tuple(stages[stage] for stage in STAGES)


JOB_COLUMNS: Final[Columns] = {
    "status": "status",
    "updated_at": "updated_at",
    "due_at": "due_at",
    "completed_at": "completed_at",
    "retry_at": "retry_at",
    "claim_generation": "lease.generation",
    "lease_owner": "lease.owner",
    "lease_expires_at": "lease.expires_at",
    ERROR: "error",
}


def job_state(jobs: Sequence[Job]) -> dict[str, object]:
    """The columns of jobs that change, as arrays in the order of ``jobs``."""
    return {
        "ids": Uuids(j.job_id for j in jobs),
        "status": Texts(j.status for j in jobs),
        "updated_at": Times(j.updated_at for j in jobs),
        "due_at": Times(j.due_at for j in jobs),
        "completed_at": Times(j.completed_at for j in jobs),
        "retry_at": Times(j.retry_at for j in jobs),
        **_lease_arrays([j.lease for j in jobs]),
        **_error_arrays([j.error for j in jobs]),
    }


def job_identity(jobs: Sequence[Job]) -> dict[str, object]:
    """The columns of jobs that never change."""
    return {
        "meme_id": Uuids(j.meme_id for j in jobs),
        "revision": Ints(j.revision for j in jobs),
        "image_sha256": Texts(j.image_sha256.hex for j in jobs),
        "reverse_image_policy": Texts(j.reverse_image_policy for j in jobs),
        "config_fingerprint": Texts(j.config_fingerprint for j in jobs),
        "created_at": Times(j.created_at for j in jobs),
    }


def stage_arrays(pairs: Sequence[tuple[JobId, StageState]]) -> dict[str, object]:
    """Stages of jobs, as arrays in the order of ``pairs``."""
    return {
        "ids": Uuids(job_id for job_id, _ in pairs),
        "stage": Texts(s.stage for _, s in pairs),
        "status": Texts(s.status for _, s in pairs),
        "reused": Bools(s.reused for _, s in pairs),
        "task_id": Uuids(s.task_id for _, s in pairs),
        "retry_at": Times(s.retry_at for _, s in pairs),
        **_error_arrays([s.error for _, s in pairs]),
    }


def attempt_of(scope: Scope, row: Row) -> Attempt:
    return Attempt(
        scope=scope,
        task_id=row[0],
        attempt_no=row[1],
        attempt_id=row[2],
        request_id=row[3],
        session_id=row[4],
        generation=row[5],
        status=_ATTEMPT_STATUSES[row[6]],
        input_digest=Sha256(row[7]),
        created_at=row[8],
        external_started_at=row[9],
        hard_deadline_at=row[10],
        completed_at=row[11],
        error=_error(row[12], row[13]),
    )


def attempt_identity(attempts: Sequence[Attempt]) -> dict[str, object]:
    """The columns of attempts that never change, but for their key."""
    return {
        "request_id": Texts(a.request_id for a in attempts),
        "session_id": Texts(a.session_id for a in attempts),
        "input_digest": Texts(a.input_digest.hex for a in attempts),
        "created_at": Times(a.created_at for a in attempts),
    }


ATTEMPT_COLUMNS: Final[Columns] = {
    "status": "status",
    "generation": "generation",
    "external_started_at": "external_started_at",
    "hard_deadline_at": "hard_deadline_at",
    "completed_at": "completed_at",
    ERROR: "error",
}


def attempt_state(attempts: Sequence[Attempt]) -> dict[str, object]:
    """The key of attempts and the columns that change, as arrays in the order of ``attempts``."""
    return {
        "task_id": Uuids(a.task_id for a in attempts),
        "attempt_no": Ints(a.attempt_no for a in attempts),
        "attempt_id": Texts(a.attempt_id for a in attempts),
        "generation": Ints(a.generation for a in attempts),
        "status": Texts(a.status for a in attempts),
        "external_started_at": Times(a.external_started_at for a in attempts),
        "hard_deadline_at": Times(a.hard_deadline_at for a in attempts),
        "completed_at": Times(a.completed_at for a in attempts),
        **_error_arrays([a.error for a in attempts]),
    }


def grant_of(scope: Scope, row: Row) -> Grant:
    return Grant(
        scope=scope,
        grant_id=row[0],
        operation=_OPERATIONS[row[1]],
        logical_request_key=row[2],
        fingerprint=row[3],
        reservation=row[4],
        task_id=row[5],
        job_id=row[6],
        status=_GRANT_STATUSES[row[7]],
        created_at=row[8],
        updated_at=row[9],
    )


GRANT_COLUMNS: Final[Columns] = {
    "status": "status",
    "updated_at": "updated_at",
}


def grant_state(grants: Sequence[Grant]) -> dict[str, object]:
    return {
        "ids": Uuids(g.grant_id for g in grants),
        "status": Texts(g.status for g in grants),
        "updated_at": Times(g.updated_at for g in grants),
    }


def grant_identity(grants: Sequence[Grant]) -> dict[str, object]:
    return {
        "operation": Texts(g.operation for g in grants),
        "logical_request_key": Texts(g.logical_request_key for g in grants),
        "fingerprint": Texts(g.fingerprint for g in grants),
        "reservation": Texts(g.reservation for g in grants),
        "task_id": Uuids(g.task_id for g in grants),
        "job_id": Uuids(g.job_id for g in grants),
        "created_at": Times(g.created_at for g in grants),
    }


def meme_of(scope: Scope, row: Row) -> Meme:
    picture = Picture(Sha256(row[2]), row[3], row[4], row[5], row[6], row[7], row[8])
    return Meme(scope, row[0], row[1], picture, row[9], row[10], row[11])


def meme_values(meme: Meme) -> dict[str, object]:
    picture = meme.picture
    return {
        "meme_id": meme.meme_id,
        "filename": meme.filename,
        "image_sha256": picture.sha256.hex,
        "media_type": picture.media_type,
        "byte_size": picture.byte_size,
        "width": picture.width,
        "height": picture.height,
        "frames": picture.frames,
        "storage_key": picture.storage_key,
        "created_at": meme.created_at,
        "updated_at": meme.updated_at,
        "deleted_at": meme.deleted_at,
    }


def context_of(scope: Scope, row: Row) -> Context:
    return Context(
        scope=scope,
        meme_id=row[0],
        status=_CONTEXT_STATUSES[row[1]],
        revision=row[2],
        description=description_of(row[3]),
        provenance=None if row[4] is None else _provenance(row[4]),
        updated_at=row[5],
    )


# A context is read several times on a picture's way through the stages, and a value is as good as its twin.
@lru_cache(maxsize=1024)
def description_of(stored: str) -> Description:
    return CONVERTER.structure(json.loads(stored), Description)


@lru_cache(maxsize=1024)
def _provenance(stored: str) -> Provenance:
    return CONVERTER.structure(json.loads(stored), Provenance)


def context_arrays(contexts: Sequence[Context]) -> dict[str, object]:
    hashes = [c.metadata_hash for c in contexts]
    return {
        "ids": Uuids(c.meme_id for c in contexts),
        "status": Texts(c.status for c in contexts),
        "revision": Ints(c.revision for c in contexts),
        "description": Texts(_json(c.description) for c in contexts),
        "metadata_hash": Texts(None if h is None else h.hex for h in hashes),
        "provenance": Texts(None if c.provenance is None else _json(c.provenance) for c in contexts),
        "updated_at": Times(c.updated_at for c in contexts),
    }


def _json(value: object) -> str:
    return json.dumps(CONVERTER.unstructure(value))


def _lease_arrays(leases: Sequence[Lease]) -> dict[str, object]:
    return {
        "claim_generation": Ints(lease.generation for lease in leases),
        "lease_owner": Texts(lease.owner for lease in leases),
        "lease_expires_at": Times(lease.expires_at for lease in leases),
    }


def _error_arrays(errors: Sequence[Diagnosis | None]) -> dict[str, object]:
    return {
        "error_code": Texts(None if e is None else e.code for e in errors),
        "error_message": Texts(None if e is None else e.message for e in errors),
    }

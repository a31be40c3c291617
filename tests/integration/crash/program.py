"""Processes that die on purpose: ``python -m tests.integration.crash.program``.

Every line of its input says how one process lives and ends; the answer is that process's exit code. Each is a fork
of this one, which has imported everything and opened nothing.
"""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn
from uuid import UUID

from attrs import define, evolve, frozen
from cattrs.preconf.json import make_converter
from tests.integration.crash.site import SCOPE, Site

from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.crash import Death, Fate, FatedUnitOfWork
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_app import event_loop
from imgproc_domain.ids import MemeId
from imgproc_domain.policy import Decision, Denied, Operation, OperationRequest
from imgproc_domain.ports.blobs import BlobStore, Staged
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.ingest import upload

AT_MOST: Final = 60
"""Seconds after which a process that should have died long ago ends by itself, with another exit code."""


class Step(StrEnum):
    """What a process passes besides the points of the protocol: its start, and what people do with pictures."""

    BEGUN = "begun"
    """The process has not looked at anything."""
    PERMITTED = "permitted"
    """The policy has reserved the operation."""
    KEPT = "kept"
    """The bytes are in their place."""
    DURABLE = "durable"
    """Its rows are committed; the policy was not told."""
    SPENT = "spent"
    """The policy has spent the reservation."""


class Work(StrEnum):
    PROCESS = "process"
    UPLOAD = "upload"
    REPLACE = "replace"
    DELETE = "delete"


@frozen
class Life:
    """What a process does, and the `Point` or `Step` it ends at; ``stage`` says whose call `Death.CALLING` is."""

    site: Site
    work: Work
    point: str
    death: Death
    nth: int = 1
    stage: Stage = Stage.AGENT
    meme_id: UUID | None = None
    content: str = ""


CONVERTER: Final = make_converter()
CONVERTER.register_unstructure_hook(Path, str)
CONVERTER.register_structure_hook(Path, lambda value, _: Path(value))
CONVERTER.register_unstructure_hook(timedelta, timedelta.total_seconds)
CONVERTER.register_structure_hook(timedelta, lambda value, _: timedelta(seconds=value))
CONVERTER.register_unstructure_hook(UUID, str)
CONVERTER.register_structure_hook(UUID, lambda value, _: UUID(value))


@define(eq=False)
class WatchedPolicy:
    """Another policy, whose answers are points too."""

    inner: OperationPolicy
    fate: Fate

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:
        return await self.inner.probe(scope, operation)

    async def acquire(self, request: OperationRequest) -> Decision:
        answer = await self.inner.acquire(request)
        self.fate(Step.PERMITTED)
        return answer

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        self.fate(Step.DURABLE)
        answer = await self.inner.commit(request, reservation)
        self.fate(Step.SPENT)
        return answer

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        return await self.inner.release(scope, operation, logical_request_key)


@define(eq=False)
class WatchedBlobs:
    """Another blob store; that it has the bytes is a point too."""

    inner: BlobStore
    fate: Fate

    async def stage(self, chunks: AsyncIterator[bytes], limit: int) -> Staged:
        return await self.inner.stage(chunks, limit)

    async def keep(self, scope: Scope, staged: Staged) -> str:
        key = await self.inner.keep(scope, staged)
        self.fate(Step.KEPT)
        return key

    async def discard(self, staged: Staged) -> None:
        await self.inner.discard(staged)

    def path(self, scope: Scope, storage_key: str) -> Path:
        return self.inner.path(scope, storage_key)

    async def has(self, scope: Scope, storage_key: str) -> bool:
        return await self.inner.has(scope, storage_key)

    async def remove(self, scope: Scope, storage_key: str) -> None:
        await self.inner.remove(scope, storage_key)


async def live(life: Life) -> None:
    """Work until death; returns only if that never came."""
    fate = Fate(life.point, life.death, life.site.told, life.nth)
    engine = life.site.engine()
    deployment = life.site.deployment(engine, FatedUnitOfWork(PostgresUnitOfWork(engine), fate), fate)
    fate(Step.BEGUN)
    if life.work is not Work.PROCESS:
        await _do(life, _watched(deployment, fate))
        return
    _doom(deployment, life.stage, fate)
    worker = life.site.worker(deployment, engine)
    for kind in (TaskType.CONTEXT, TaskType.TEXT):
        # they have seen that nobody waits, however slow the machine is: what is opened is handed over
        await worker._lanes[kind].turn()
    await worker.start()
    await asyncio.Event().wait()


def _watched(deployment: Deployment, fate: Fate) -> Deployment:
    policy, blobs = WatchedPolicy(deployment.policy, fate), WatchedBlobs(deployment.blobs, fate)
    return evolve(deployment, policy=policy, blobs=blobs)


def _doom(deployment: Deployment, stage: Stage, fate: Fate) -> None:
    """Let the process end in the middle of a call of this stage, where that is its fate."""
    if fate.death is not Death.CALLING:
        return

    def end(_: object) -> NoReturn:
        assert fate.during(Death.CALLING), "the call was made before its point was passed"
        fate.end()

    models = {Stage.VISUAL: deployment.visual, Stage.AGENT: deployment.agent, Stage.TEXT: deployment.text}
    model = models[stage]
    assert isinstance(model, ScriptedVisualModel | ScriptedAgent | ScriptedTextModel), "the site's models are scripted"
    model.script.always(end)


async def _do(life: Life, deployment: Deployment) -> None:
    match life.work:
        case Work.UPLOAD:
            await upload(deployment, SCOPE, "a.png", content_of(life.content), ReverseImagePolicy.FORBID)
        case Work.REPLACE:
            assert life.meme_id is not None, "it says which picture"
            await replace_picture(deployment, SCOPE, MemeId(life.meme_id), None, content_of(life.content))
        case Work.DELETE:
            assert life.meme_id is not None, "it says which picture"
            await delete_meme(deployment, SCOPE, MemeId(life.meme_id))
        case _:
            raise AssertionError("pictures are processed by a worker")


async def content_of(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def born(life: Life) -> NoReturn:
    """Live in this process, which ends whatever comes; it never returns to those who forked it."""
    try:
        signal.alarm(AT_MOST)
        event_loop.run(live(life))
    except BaseException:  # noqa: BLE001 - said below; nothing may go on in a fork of the program
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    # so that the dialect is imported once, and not by every fork; it connects to nothing
    open_engine("")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            born(CONVERTER.loads(line, Life))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Pictures with the local models: the whole pipeline beside the same models in a plain loop.

The loop has what the pipeline has: one process a lane, a picture's words embedded once it is described, the lanes at
work at the same time on different pictures - but no engine, no database and no file of ours. Pictures are uploaded
before the clock runs; decoding them for the models is part of both.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import evolve

from benchmarks.plan import Plan
from benchmarks.rig import Ended
from benchmarks.server import Database, fresh_database
from benchmarks.stats import median
from benchmarks.steps import Measured, Steps, in_order
from imgproc_adapters.models.local import LocalModels
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_app import event_loop
from imgproc_app.cli.samples import samples_folder
from imgproc_app.container import pace_of
from imgproc_app.lifecycle import Parts, Runtime, open_runtime
from imgproc_app.settings import Settings
from imgproc_app.worker import ImageProcessingWorker
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.vector import Vector

KEYS: Final = ("pictures_per_s", "raw_loop_pictures_per_s", "ratio")
_PATIENCE: Final = 1200.0


def measure(server: EmbeddedPostgres, plan: Plan) -> Measured:
    """Measure loop and pipeline in turn, so that both meet the same machine."""
    steps = Steps("models")
    values: dict[str, object] = {}
    details: dict[str, object] = {}
    with steps.step("samples through the local models, raw and through the engine"):
        with fresh_database(server, "models") as database:
            found = event_loop.run(_rounds(database, plan))
        raw, whole = ([each[side] for each in found] for side in (0, 1))
        values = {
            "pictures_per_s": median(whole),
            "raw_loop_pictures_per_s": median(raw),
            "ratio": median(whole) / median(raw),
        }
        details = {"repeats": plan.repeats, "pictures_per_s_rounds": whole, "raw_loop_pictures_per_s_rounds": raw}
    return Measured(in_order(KEYS, values), details, steps.errors)


async def _rounds(database: Database, plan: Plan) -> list[tuple[float, float]]:
    pictures = sample_pictures()
    with TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), dsn=database.dsn)
        async with open_runtime(settings, Parts(policy=None)) as runtime:
            await runtime.warm()
            async with runtime.deployment.uow.begin(runtime.scope) as tx:
                await tx.slots.resize(Lane.AGENT, settings.agent_lane)
            return [
                (
                    await _loop(runtime.local_models, pictures * plan.repeats),
                    await _pipeline(runtime, pictures, plan.repeats, number),
                )
                for number in range(plan.model_rounds)
            ]


def sample_pictures() -> list[Path]:
    """Return the pictures of the demo, in the order of names."""
    return [path for path in sorted(samples_folder().iterdir()) if path.suffix not in {".json", ".md"}]


async def _loop(models: LocalModels, pictures: Sequence[Path]) -> float:
    """Return pictures a second."""
    texts: asyncio.Queue[str] = asyncio.Queue()

    async def see() -> None:
        for path in pictures:
            (answer,) = await models.visual.embed([path])
            assert isinstance(answer, Vector), f"{path.name}: {answer}"

    async def describe() -> None:
        for number, path in enumerate(pictures):
            name = f"bench-{number}"
            call = AgentCall(AttemptId(name), name, name, path, ReverseImagePolicy.FORBID)
            answer = await models.agent.describe(call)
            assert isinstance(answer, AgentAnswer), f"{path.name}: {answer}"
            texts.put_nowait(answer.description.embeddable_text())

    async def embed() -> None:
        for _ in pictures:
            (answer,) = await models.text.embed_documents([await texts.get()])
            assert isinstance(answer, Vector), f"{answer}"

    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for lane in (see(), describe(), embed()):
            group.create_task(lane)
    return len(pictures) / (time.monotonic() - begun)


async def _pipeline(runtime: Runtime, pictures: Sequence[Path], repeats: int, number: int) -> float:
    """Upload every picture into as many scopes as there are repeats, then run a worker; returns pictures a second."""
    ended = Ended()
    deployment = evolve(runtime.deployment, observer=ended)
    for repeat in range(repeats):
        for path in pictures:
            scope = Scope(f"round-{number}-{repeat}")
            await upload(deployment, scope, path.name, bytes_of(path), ReverseImagePolicy.FORBID)
    worker = ImageProcessingWorker(
        deployment,
        runtime.dispatch,
        PostgresHeartbeat(runtime.dsn),
        PostgresListener(runtime.dsn),
        pace_of(runtime.settings),
        home=runtime.scope,
    )
    begun = time.monotonic()
    await worker.start()
    try:
        done = await ended.reach(len(pictures) * repeats, _PATIENCE)
        seconds = time.monotonic() - begun
    finally:
        await worker.stop()
    assert done, f"{ended.succeeded} of {len(pictures) * repeats} pictures were done after {_PATIENCE:g} s"
    return len(pictures) * repeats / seconds


async def bytes_of(path: Path) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(path.read_bytes)

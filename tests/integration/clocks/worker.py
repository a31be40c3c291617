"""A worker process whose clock is wrong: ``python worker.py '{"shift": 3600, ...}'`` works until its input ends."""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    GIVEN = json.loads(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.integration.clocks import shift

    if GIVEN["replace"]:
        shift.replace(GIVEN["shift"])

import asyncio
import hashlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import (
    ScriptedAgent,
    ScriptedTextModel,
    ScriptedVisualModel,
    name_answer,
    picture_vector,
)
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.script import Held, Script
from imgproc_app import event_loop
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ports.models import AgentCall, Declined
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.deployment import Deployment, Limits

RETRY_AFTER = timedelta(seconds=1.5)
HARD_DEADLINE = timedelta(seconds=5)
BUSY = Declined(Diagnosis(ErrorCode.AGENT_FAILED, "busy"), transient=True, retry_after=RETRY_AFTER)
REFUSED = Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False)
DIM = Declined(Diagnosis(ErrorCode.VISUAL_FAILED, "too dark for now"), transient=True)
FOR_EVER = Held(DIM)

SEEN_FIRST = {"dim": DIM, "lost in sight": FOR_EVER}
DESCRIBED_FIRST = {"busy": BUSY, "refused": REFUSED, "lost in thought": FOR_EVER}
"""What models answer to the first call for a picture, by its content; every other call succeeds."""


def _plan(script: Script[Any, Any], usual: Callable[[Any], Any], folder: Path, answers: dict[str, Any]) -> None:
    by_name = {hashlib.sha256(content.encode()).hexdigest(): content for content in answers}

    def answer(call: Any) -> Any:
        content = by_name.get((call.picture if isinstance(call, AgentCall) else call).name)
        return answers[content] if content and _first_time(folder / content) else usual(call)

    script.always(answer)


def _first_time(mark: Path) -> bool:
    """Whether no process has come here before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _deployment(given: dict[str, Any], uow: PostgresUnitOfWork, policy: QuotaPolicy) -> Deployment:
    folder, lease = Path(given["folder"]), timedelta(seconds=given["lease"])
    visual, agent = ScriptedVisualModel(), ScriptedAgent(hard_deadline=HARD_DEADLINE)
    _plan(visual.script, lambda path: picture_vector(path, visual.space.dimension), folder, SEEN_FIRST)
    _plan(agent.script, name_answer, folder, DESCRIBED_FIRST)
    return Deployment(
        uow=uow,
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=visual,
        agent=agent,
        text=ScriptedTextModel(),
        policy=policy,
        ids=SystemIds(),
        observer=RecordingObserver(),
        limits=Limits(lease, lease, retry=RetryPolicy(base=timedelta(seconds=0.5))),
    )


async def _work(given: dict[str, Any]) -> None:
    dsn, pooled = given["dsn"], given["pooled"]
    engine = open_engine(dsn, pooler=pooled)
    worker = ImageProcessingWorker(
        _deployment(given, PostgresUnitOfWork(engine), QuotaPolicy(engine)),
        PostgresDispatch(engine),
        PostgresHeartbeat(dsn, pooler=pooled),
        PostgresListener(given["direct"]),
        Pace(poll=0.1, sweep=0.2),
        home=Scope(given["home"]),
    )
    await worker.start()
    clocks = [time.time(), time.time_ns() / 1e9, datetime.now().timestamp()]  # noqa: DTZ005 - what it shows is asked
    print(json.dumps(clocks), flush=True)  # noqa: T201 - that is how it says that it is ready
    await asyncio.to_thread(sys.stdin.read)
    await worker.stop()
    await engine.dispose()


if __name__ == "__main__":
    event_loop.run(_work(GIVEN))

"""The real worker and the real use cases over the memory adapter, with scripted models: what a host's tests can do."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.memory import (
    MemoryDispatch,
    MemoryHeartbeat,
    MemoryListener,
    MemoryStore,
    MemoryUnitOfWork,
    SystemClock,
)
from imgproc_adapters.policy import AllowAllPolicy, UnavailablePolicy
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.contracts.blobs import chunks
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.invariants import check_invariants
from imgproc_adapters.testing.ledger import most_in_flight, started
from imgproc_adapters.testing.models import (
    AGENT,
    ScriptedAgent,
    ScriptedTextModel,
    ScriptedVisualModel,
)
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.view import memory_view
from imgproc_app.worker.worker import ImageProcessingWorker, Pace
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import OperationDenied
from imgproc_domain.events import JobEnded
from imgproc_domain.job import JobStatus
from imgproc_domain.ports.models import Declined, Lost
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.search import parse_query
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.search import search

FAST = Pace(poll=0.01, sweep=0.01, grace=5.0)


class Engine:
    """One process: a worker over a store of its own."""

    def __init__(self, root: Path, policy: OperationPolicy) -> None:
        self.store, self.clock, self.observer = MemoryStore(), SystemClock(), RecordingObserver()
        self.agent = ScriptedAgent(hard_deadline=timedelta(seconds=10))
        self.deployment = Deployment(
            uow=MemoryUnitOfWork(self.store, self.clock),
            blobs=LocalBlobStore(root),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(),
            agent=self.agent,
            text=ScriptedTextModel(),
            policy=policy,
            ids=SystemIds(),
            observer=self.observer,
        )
        self.worker = ImageProcessingWorker(
            self.deployment,
            MemoryDispatch(self.store, self.clock),
            MemoryHeartbeat(self.store, self.clock),
            MemoryListener(self.store),
            FAST,
        )

    async def start(self, lanes: int = 2) -> None:
        async with self.deployment.uow.begin(A) as tx:
            await tx.slots.resize(Lane.AGENT, lanes)
        await self.worker.start()

    async def upload(self, scope: Scope, content: str) -> None:
        await upload(self.deployment, scope, f"{content}.png", chunks([content.encode()]), ReverseImagePolicy.FORBID)

    async def ended(self, count: int) -> list[JobStatus]:
        await self.observer.until(lambda: len(self.observer.of(JobEnded)) >= count)
        return [event.status for event in self.observer.of(JobEnded)]

    def check(self) -> None:
        for scope in (A, B):
            check_invariants(memory_view(self.store, scope, self.clock.now()))


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(tmp_path, AllowAllPolicy())
    yield engine
    await engine.worker.stop()
    engine.check()


async def test_pictures_of_two_scopes_go_through_all_stages_and_are_found(engine: Engine) -> None:
    await engine.start()
    for content in ("one", "two", "three"):
        for scope in (A, B):
            await engine.upload(scope, content)
    assert await engine.ended(6) == [JobStatus.SUCCEEDED] * 6
    calls = started(engine.agent.ledger, AGENT)
    assert len(calls) == len(set(calls)) == 6
    assert most_in_flight(engine.agent.ledger, AGENT) <= 2
    answer = await search(engine.deployment, A, parse_query("picture"))
    assert (len(answer.hits), answer.coverage.searchable, answer.coverage.total) == (3, 3, 3)


async def test_a_lost_call_ends_its_job_as_unknown_and_no_other(engine: Engine) -> None:
    engine.agent.script.then(Lost(Diagnosis(ErrorCode.AGENT_TIMEOUT, "no answer")))
    await engine.start()
    for content in ("one", "two"):
        await engine.upload(A, content)
    assert sorted(await engine.ended(2)) == [JobStatus.SUCCEEDED, JobStatus.UNKNOWN]
    assert len(started(engine.agent.ledger, AGENT)) == 2


async def test_a_permanent_answer_fails_the_job(engine: Engine) -> None:
    engine.agent.script.then(Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False))
    await engine.start()
    await engine.upload(A, "one")
    assert await engine.ended(1) == [JobStatus.FAILED]


async def test_a_bug_in_an_agent_is_an_unknown_outcome(engine: Engine) -> None:
    engine.agent.script.then(RuntimeError("a bug"))
    await engine.start()
    await engine.upload(A, "one")
    assert await engine.ended(1) == [JobStatus.UNKNOWN]


async def test_without_a_policy_for_agents_jobs_are_blocked_and_no_call_is_made(tmp_path: Path) -> None:
    engine = Engine(tmp_path, RememberingPolicy(denying=True))
    await engine.start()
    await engine.upload(A, "one")
    assert await engine.ended(1) == [JobStatus.BLOCKED]
    await engine.worker.stop()
    assert started(engine.agent.ledger, AGENT) == []
    engine.check()


async def test_without_any_policy_nothing_is_taken_in(tmp_path: Path) -> None:
    engine = Engine(tmp_path, UnavailablePolicy())
    with pytest.raises(OperationDenied) as denied:
        await engine.upload(A, "one")
    assert denied.value.code == "operation_policy_unavailable"
    assert memory_view(engine.store, A, engine.clock.now()).memes == []
    assert list((tmp_path / "staging").glob("*")) == []


@pytest.mark.parametrize("lanes", [1, 3])
async def test_the_agent_lane_is_never_wider_than_its_slots(engine: Engine, lanes: int) -> None:
    await engine.start(lanes)
    for number in range(6):
        await engine.upload(A, f"picture {number}")
    await engine.ended(6)
    assert most_in_flight(engine.agent.ledger, AGENT) <= lanes

"""The whole interface behind a real socket: memory for rows, a folder for bytes, scripted models, the real decoder."""

import asyncio
import hashlib
import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import uvicorn
from attrs import evolve, field, frozen
from PIL import Image

from imgproc_adapters import imaging
from imgproc_adapters.blobs import LocalBlobStore
from imgproc_adapters.http import Connection, HttpLimits, Unauthenticated, create_app
from imgproc_adapters.memory import ManualClock, MemoryDispatch, MemoryStore, MemoryUnitOfWork
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.models import NOTHING_KNOWN, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain import job as jobs
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Context, ContextStatus, Description, Origin, Provenance
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.events import Event
from imgproc_domain.ids import JobId, MemeId
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.policy import DenialReason, Denied
from imgproc_domain.ports.models import PictureInfo
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.product import TextProduct
from imgproc_domain.scope import Scope, parse_scope
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import Lane, Stage, TaskType
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.vector import Vector
from imgproc_domain.words import words_of

TENANT: Final = "X-Test-Tenant"
ALICE: Final = Scope("alice")
BOB: Final = Scope("bob")
FILE_LIMIT: Final = 64 * 1024
OTHER: Final = VectorSpace("scripted-text-2", 32)
"""The space of a second text model."""

BY_ID: Final = [
    ("GET", "/images/{meme_id}", "meme_not_found"),
    ("POST", "/images/{meme_id}/processing", "meme_not_found"),
    ("GET", "/media/{meme_id}", "meme_not_found"),
    ("GET", "/media/{meme_id}/thumbnail", "meme_not_found"),
    ("GET", "/images/processing/{job_id}", "task_not_found"),
    ("POST", "/images/processing/{job_id}/retry", "task_not_found"),
    ("GET", "/tasks/{task_id}", "task_not_found"),
    ("GET", "/executions/unknown/{task_id}", "task_not_found"),
    ("POST", "/executions/unknown/{task_id}/resolve", "task_not_found"),
]
"""Every route with an id in its path, and what it says of one that does not exist."""

RESOLUTION: Final = {"reason": "not billed", "evidence": "no such request", "owner_dead": True, "call_over": True}
BODIES: Final[Mapping[str, Mapping[str, object]]] = {"/executions/unknown/{task_id}/resolve": RESOLUTION}
"""What the routes that need a body are sent, by their paths."""


class TenantHeader:
    """Resolves the scope from a header, as a gateway in front of a host might set it."""

    async def resolve(self, connection: Connection) -> Scope:
        named = connection.headers.get(TENANT)
        if named is None:
            raise Unauthenticated("the request names no tenant")
        return parse_scope(named)


class ThreadDecoder:
    """The real decoder, in a thread."""

    def __init__(self) -> None:
        self.thumbnails_made = 0

    async def probe(self, path: Path) -> PictureInfo:
        return await asyncio.to_thread(imaging.probe, path)

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:
        self.thumbnails_made += 1
        return await asyncio.to_thread(imaging.thumbnail, path, longest_side)


class Heard:
    """Keeps what was noted."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, event: Event) -> None:
        self.events.append(event)


@frozen
class Site:
    """A running application. ``alice`` and ``bob`` are clients of two scopes, ``nobody`` of none."""

    url: str
    deployment: Deployment
    dispatch: MemoryDispatch
    clock: ManualClock
    agent: ScriptedAgent
    words: ScriptedTextModel
    decoder: ThreadDecoder
    root: Path
    checks: dict[str, str | None]
    alice: httpx.AsyncClient
    bob: httpx.AsyncClient
    nobody: httpx.AsyncClient

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def staged(self) -> list[Path]:
        return list((self.root / "staging").iterdir())

    async def upload(self, name: str = "cat.png", data: bytes | None = None, client: str = "alice") -> dict[str, Any]:
        """Upload one picture, by default one never seen before, and return its item."""
        sender: httpx.AsyncClient = getattr(self, client)
        answer = await sender.post("/images", files={"files": (name, data or png(name), "image/png")})
        assert answer.status_code in (200, 201), answer.text
        (item,) = answer.json()["items"]
        return dict(item)

    async def job(self, job_id: str, scope: Scope = ALICE) -> Job:
        async with self.deployment.uow.begin(scope) as tx:
            return (await tx.jobs.get([JobId(UUID(job_id))]))[JobId(UUID(job_id))]

    async def end(self, job_id: str, status: JobStatus, scope: Scope = ALICE) -> None:
        """End a job as its worker, or its policy, would."""
        before = await self.job(job_id, scope)
        async with self.deployment.uow.begin(scope) as tx:
            await tx.memes.lock([before.meme_id])
            found = (await tx.jobs.lock([before.job_id]))[before.job_id]
            await tx.jobs.save([_ended(found, status, await tx.now())])

    async def work(self, task_type: TaskType, scope: Scope = ALICE) -> None:
        """Execute the queued tasks of one type as a worker would."""
        claimed = await claim_tasks(self.deployment, scope, task_type, 100, OWNER)
        ready = await start(self.deployment, scope, claimed)
        items = []
        for execution in ready.running:
            assert execution.attempt is not None
            outcome = await perform(self.deployment, execution)
            items.append(Settling(execution.claim, execution.attempt.attempt_id, outcome))
        await settle(self.deployment, scope, items)

    async def lose_call(self, client: str = "alice") -> dict[str, str]:
        """Upload a picture whose agent call is lost, and return the ids of picture, job and task."""
        item, scope = await self.upload(f"{uuid4()}.png", client=client), Scope(client)
        async with self.deployment.uow.begin(scope) as tx:
            await tx.slots.resize(Lane.AGENT, 4)
        await self.work(TaskType.VISUAL, scope)
        await reconcile_due(self.deployment, self.dispatch, scope, OWNER, 100)
        self.agent.script.then(NOTHING_KNOWN)
        await self.work(TaskType.CONTEXT, scope)
        job = await self.job(item["job"]["job_id"], scope)
        assert job.status is JobStatus.UNKNOWN
        return {
            "meme_id": item["meme_id"],
            "job_id": str(job.job_id),
            "task_id": str(job.stage(Stage.AGENT).task_id),
        }

    async def describe(self, meme_id: str, title: str, scope: Scope = ALICE) -> None:
        """Give a picture a context and a findable vector."""
        key = MemeId(UUID(meme_id))
        description = Description(title=title, keywords=tuple(title.split()), uncertainties=("everything",))
        vector = await self.words.embed_query(title)
        assert isinstance(vector, Vector)
        async with self.deployment.uow.begin(scope) as tx:
            meme = (await tx.memes.lock([key]))[key]
            provenance = Provenance(Origin.AGENT, meme.picture.sha256, agent_fingerprint="agent-test")
            context = Context(scope, key, ContextStatus.PARTIAL, 1, description, provenance, await tx.now())
            assert context.metadata_hash is not None
            product = TextProduct(key, meme.picture.sha256, context.metadata_hash, self.words.space.id, vector)
            await tx.contexts.put([context])
            await tx.products.put_text([product])
            await tx.search.publish([product], {key: words_of(description, meme.filename)})


def _ended(job: Job, status: JobStatus, now: Any) -> Job:
    stage = job.current_stage or Stage.VISUAL
    match status:
        case JobStatus.BLOCKED:
            denied = Denied(DenialReason.LIMIT_EXCEEDED, "today's budget is used up", now + timedelta(hours=1))
            return jobs.block(job, stage, denied, now)
        case JobStatus.UNKNOWN:
            return jobs.fail_stage(job, stage, Diagnosis(ErrorCode.UNKNOWN_EXECUTION, "the reply was lost"), now)
        case JobStatus.SUCCEEDED:
            done = tuple(evolve(state, status=JobStatus.SUCCEEDED) for state in job.stages)
            return jobs.finish(evolve(job, stages=done), now)
        case _:
            return jobs.close(job, Diagnosis(ErrorCode.VISUAL_FAILED, "the model refused"), now)


def png(seed: str, side: int = 24) -> bytes:
    """Return a small picture whose bytes depend on ``seed``."""
    shade = hashlib.sha256(seed.encode()).digest()
    image = Image.new("RGB", (side, side), (shade[0], shade[1], shade[2]))
    image.putpixel((0, 0), (shade[3], shade[4], shade[5]))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def form(*parts: tuple[str, str | None, bytes]) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a form, with its parts in any order a test likes."""
    body = b""
    for name, filename, data in parts:
        named = f'; filename="{filename}"' if filename is not None else ""
        body += f'--frontier\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"
    return {"Content-Type": "multipart/form-data; boundary=frontier"}, body + b"--frontier--\r\n"


@asynccontextmanager
async def running(
    root: Path,
    policy: OperationPolicy | None = None,
    limits: HttpLimits | None = None,
    changed: Callable[[Deployment], Deployment] = lambda deployment: deployment,
) -> AsyncIterator[Site]:
    """Serve an application of its own on a free port until the block ends."""
    words, decoder, checks = ScriptedTextModel(), ThreadDecoder(), dict[str, str | None](database=None)
    store, clock, agent = MemoryStore(), ManualClock(), ScriptedAgent()
    deployment = Deployment(
        uow=MemoryUnitOfWork(store, clock),
        blobs=LocalBlobStore(root),
        decoder=decoder,
        visual=ScriptedVisualModel(),
        agent=agent,
        text=words,
        policy=policy or AllowAllPolicy(),
        ids=SystemIds(),
        observer=Heard(),
        limits=Limits(upload_bytes=FILE_LIMIT),
        more_text=[ScriptedTextModel(OTHER)],
    )

    deployment = changed(deployment)

    async def readiness() -> Mapping[str, str | None]:
        return checks

    app = create_app(deployment, TenantHeader(), readiness, limits=limits, operators=True)
    async with (
        serving(app) as url,
        _client(url, ALICE) as alice,
        _client(url, BOB) as bob,
        _client(url, None) as nobody,
    ):
        dispatch = MemoryDispatch(store, clock)
        yield Site(url, deployment, dispatch, clock, agent, words, decoder, root, checks, alice, bob, nobody)


def _client(url: str, scope: Scope | None) -> httpx.AsyncClient:
    # without TLS there is nothing to verify, and loading certificates costs more than most tests
    return httpx.AsyncClient(base_url=url, headers={TENANT: scope} if scope else {}, timeout=30, verify=False)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port and yield its URL."""
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        ended = asyncio.create_task(server.serve(sockets=[bound]))
        await server.up.wait()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await ended


class _Server(uvicorn.Server):
    """Leaves signals to the test runner, and tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@frozen
class Raw:
    """A connection on which a test says exactly what it wants, and stops in mid-sentence."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter = field()

    @classmethod
    async def to(cls, site: Site) -> "Raw":
        return cls(*await asyncio.open_connection(*site.address))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        line = await asyncio.wait_for(self.reader.readline(), 30)
        return int(line.split()[1])

    async def hang_up(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


async def eventually(holds: Callable[[], bool | Awaitable[bool]], within: float = 30.0) -> None:
    """Return as soon as the condition holds; fails if it does not within so many seconds."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        assert asyncio.get_running_loop().time() < deadline, "the condition never came to hold"
        await asyncio.sleep(0.01)

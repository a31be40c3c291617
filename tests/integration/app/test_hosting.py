"""imgproc inside a host's application: its tenants, its permissions, its models."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from litestar import Litestar

from imgproc_adapters.http import Connection, Operators, ScopeResolver, Unauthenticated
from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import Embedded, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.script import Held
from imgproc_adapters.testing.waiting import until
from imgproc_app import build
from imgproc_app.hosting import Application
from imgproc_app.settings import Settings
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import InvalidValue
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.ports.models import TextModel
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.task import Task, TaskStatus
from imgproc_domain.usecases.backfill import Embedding, embed
from imgproc_domain.usecases.maintenance import request_generation


class HeaderResolver:
    """The host's way to tell its tenants apart."""

    async def resolve(self, connection: Connection) -> Scope:
        tenant = connection.headers.get("x-tenant")
        if tenant is None:
            raise Unauthenticated("say who you are")
        return Scope(tenant)


@asynccontextmanager
async def hosted(
    dsn: str,
    folder: Path,
    resolver: ScopeResolver | None,
    policy: OperationPolicy | None,
    *,
    pooled: bool,
    more_text: Sequence[TextModel] = (),
    operators: Operators = False,
) -> AsyncIterator[tuple[Application, httpx.AsyncClient]]:
    settings = Settings(data_dir=folder, dsn=dsn, pooler=pooled, poll_seconds=0.1)
    async with build(
        settings,
        scope_resolver=resolver,
        operation_policy=policy,
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(),
        more_text=more_text,
        operators=operators,
        path="/pictures",
    ) as application:
        host = Litestar([application.router], openapi_config=None)
        transport = httpx.ASGITransport(host)  # type: ignore[arg-type]  # the two spell the same protocol differently
        async with application.working(), httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            yield application, client


async def upload(client: httpx.AsyncClient, tenant: str, content: bytes) -> str:
    answer = await client.post("/pictures/images", files={"files": ("cat.png", content)}, headers={"x-tenant": tenant})
    assert answer.status_code == 201, answer.text
    (item,) = answer.json()["items"]
    return str(item["job"]["job_id"])


async def ended(application: Application, tenant: str, job_id: str) -> Job:
    async def job() -> Job | None:
        async with application.deployment.uow.begin(Scope(tenant)) as tx:
            (found,) = [job for job in (await tx.jobs.page(None, 100)).jobs if str(job.job_id) == job_id]
        return None if found.live else found

    return await until(job)


async def test_a_host_mounts_the_router_and_each_tenant_finds_its_own(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    async with hosted(database, tmp_path, HeaderResolver(), AllowAllPolicy(), pooled=pooled) as (application, client):
        for tenant in ("ann", "bob"):
            job = await ended(application, tenant, await upload(client, tenant, tenant.encode()))
            assert job.status is JobStatus.SUCCEEDED
        found = await client.post("/pictures/search", json={"query": "picture"}, headers={"x-tenant": "ann"})
        assert found.status_code == 200, found.text
        assert len(found.json()["results"]) == 1
        assert found.json()["results"][0]["media_url"].startswith("/pictures/media/")


async def test_a_call_of_a_model_that_people_wait_for_does_not_outlive_the_application(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    async with hosted(database, tmp_path, HeaderResolver(), AllowAllPolicy(), pooled=pooled) as (application, client):
        model = application.deployment.visual
        assert isinstance(model, ScriptedVisualModel)
        hangs: Held[Embedded] = Held(LookupError("never released"))
        model.script.then(hangs)
        sent = client.post("/pictures/search/similar", files={"file": ("a.png", b"cat")}, headers={"x-tenant": "ann"})
        asking = asyncio.create_task(sent)
        await hangs.started.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert [call.phase for call in model.ledger.calls()] == ["started"]
    assert [call.phase for call in model.ledger.calls()] == ["started", "ended"]


async def test_without_a_resolver_every_request_is_refused(database: str, pooled: bool, tmp_path: Path) -> None:
    async with hosted(database, tmp_path, None, AllowAllPolicy(), pooled=pooled) as (_, client):
        answer = await client.get("/pictures/images", headers={"x-tenant": "ann"})
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")


async def test_without_a_policy_nothing_is_taken_in(database: str, pooled: bool, tmp_path: Path) -> None:
    async with hosted(database, tmp_path, HeaderResolver(), None, pooled=pooled) as (_, client):
        answer = await client.post("/pictures/images", files={"files": ("a.png", b"cat")}, headers={"x-tenant": "ann"})
        assert (answer.status_code, answer.json()["error"]) == (503, "operation_policy_unavailable")
        assert (await client.get("/pictures/images", headers={"x-tenant": "ann"})).json()["items"] == []


async def test_an_agent_that_the_policy_denies_is_not_called(database: str, pooled: bool, tmp_path: Path) -> None:
    policy = RememberingPolicy(denying=True)
    async with hosted(database, tmp_path, HeaderResolver(), policy, pooled=pooled) as (application, client):
        job = await ended(application, "ann", await upload(client, "ann", b"cat"))
        assert job.status is JobStatus.BLOCKED
        assert job.error is not None
        assert job.error.code == "operation_limit_exceeded"
        agent = application.deployment.agent
        assert isinstance(agent, ScriptedAgent)
        assert agent.ledger.calls() == []


async def test_the_task_worker_builds_a_legacy_generation_of_what_can_be_found(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    async with hosted(database, tmp_path, HeaderResolver(), AllowAllPolicy(), pooled=pooled) as (application, client):
        for content in (b"cat", b"dog"):
            await ended(application, "ann", await upload(client, "ann", content))
        requested = await request_generation(application.deployment, Scope("ann"))

        async def built() -> Task | None:
            async with application.deployment.uow.begin(Scope("ann")) as tx:
                task = (await tx.tasks.get([requested.task_id]))[requested.task_id]
            return None if task.live else task

        assert (await until(built)).status is TaskStatus.SUCCEEDED
        async with application.deployment.uow.begin(Scope("ann")) as tx:
            generation = await tx.generations.newest()
        assert generation is not None
        assert (generation.task_id, generation.entries) == (requested.task_id, 2)


async def test_a_host_goes_over_to_another_text_model_while_its_tenants_search(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    other = ScriptedTextModel(VectorSpace("the next model", 32))
    host = hosted(
        database, tmp_path, HeaderResolver(), AllowAllPolicy(), pooled=pooled, more_text=[other], operators=True
    )
    async with host as (application, client):
        ann = {"x-tenant": "ann"}
        for content in (b"cat", b"dog"):
            await ended(application, "ann", await upload(client, "ann", content))

        async def found() -> tuple[str, int]:
            status = (await client.get("/pictures/search/status", headers=ann)).json()
            answer = await client.post("/pictures/search", json={"query": "picture"}, headers=ann)
            return status["model"], len(answer.json()["results"])

        assert await found() == ("scripted-text-1", 2)
        async for page in embed(application.deployment, Scope("ann"), Embedding(other.space)):
            assert page.failed == ()
        assert await found() == ("scripted-text-1", 2)
        switched = await client.post("/pictures/maintenance/search-migration/switch", headers=ann)
        assert switched.status_code == 200, switched.text
        assert await found() == ("the next model", 2)
        await ended(application, "ann", await upload(client, "ann", b"parrot"))
        assert await found() == ("the next model", 3)


async def test_two_text_models_never_share_a_space(database: str, pooled: bool, tmp_path: Path) -> None:
    host = hosted(database, tmp_path, None, None, pooled=pooled, more_text=[ScriptedTextModel()])
    with pytest.raises(InvalidValue, match="two text models have the embedding space scripted-text-1"):
        async with host:
            pass

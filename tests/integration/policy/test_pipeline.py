"""A quota in a running service: what it stops, and what starts it again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from litestar import Litestar
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.policy.server import PolicyServer, answers_of, offering

from imgproc_adapters.http import FixedScope
from imgproc_adapters.policy.http import HttpPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.ledger import started
from imgproc_adapters.testing.models import AGENT, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.seed import A
from imgproc_adapters.testing.waiting import until
from imgproc_app import build
from imgproc_app.lifecycle import Parts, open_runtime
from imgproc_app.settings import Settings
from imgproc_domain.policy import DenialReason, Denied, Granted, Operation
from imgproc_domain.ports.policy import OperationPolicy

QUOTA = Operation.ANALYSIS_AGENT


class Service:
    """A client of a service with one scope."""

    def __init__(self, client: httpx.AsyncClient, agent: ScriptedAgent) -> None:
        self.client, self.agent = client, agent

    async def upload(self, *names: str) -> httpx.Response:
        return await self.client.post("/images", files=[("files", (f"{n}.png", n.encode())) for n in names])

    async def job_of(self, name: str) -> str:
        answer = await self.upload(name)
        assert answer.status_code == 201, answer.text
        (item,) = answer.json()["items"]
        return str(item["job"]["job_id"])

    async def job(self, job_id: str) -> dict[str, Any]:
        return dict((await self.client.get(f"/images/processing/{job_id}")).json())

    async def ended(self, job_id: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            found = await self.job(job_id)
            return None if found["status"] in ("queued", "running") else found

        return await until(look)


@asynccontextmanager
async def serving(dsn: str, folder: Path, policy: OperationPolicy, *, pooled: bool) -> AsyncIterator[Service]:
    agent = ScriptedAgent()
    async with build(
        Settings(data_dir=folder, dsn=dsn, pooler=pooled, poll_seconds=0.05),
        scope_resolver=FixedScope(A),
        operation_policy=policy,
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=agent,
        text=ScriptedTextModel(),
    ) as application:
        host = Litestar([application.router], openapi_config=None)
        transport = httpx.ASGITransport(host)  # type: ignore[arg-type]  # the two spell the same protocol differently
        async with application.working(), httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            yield Service(client, agent)


@asynccontextmanager
async def behind(kind: str, quotas: QuotaPolicy) -> AsyncIterator[OperationPolicy]:
    """The quotas themselves, or the way to them over HTTP."""
    if kind == "quota":
        yield quotas
        return
    async with offering(PolicyServer(answers_of(quotas))) as url:
        policy = HttpPolicy(url, timeout=30)
        yield policy
        await policy.close()


@pytest.mark.parametrize("kind", ["quota", "http"])
async def test_beyond_the_quota_pictures_wait_for_a_person(
    kind: str, engine: AsyncEngine, database: str, pooled: bool, tmp_path: Path
) -> None:
    quotas = QuotaPolicy(engine, {QUOTA: Quota(1, Period.MONTH)})
    async with behind(kind, quotas) as policy, serving(database, tmp_path, policy, pooled=pooled) as service:
        assert (await service.ended(await service.job_of("first")))["status"] == "succeeded"

        blocked_id = await service.job_of("second")
        blocked = await service.ended(blocked_id)
        visual, agent, text = blocked["stages"]
        assert (blocked["status"], visual["status"], text["status"]) == ("blocked", "succeeded", "queued")
        assert (agent["status"], agent["reason"], agent["task_id"]) == ("blocked", "operation_limit_exceeded", None)
        assert datetime.fromisoformat(agent["retry_at"]).day == 1
        assert blocked["retry_at"] == agent["retry_at"]

        # there is room again, and the time to come back has passed: still nothing wakes by itself
        await quotas.set_quota(A, QUOTA, Quota(3, Period.MONTH))
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            for table in ("image_processing_jobs", "image_processing_stages"):
                past = f"UPDATE {table} SET retry_at = now() - interval '1 hour' WHERE retry_at IS NOT NULL"
                await connection.execute(past.encode())
        assert (await service.ended(await service.job_of("third")))["status"] == "succeeded"
        assert (await service.job(blocked_id))["status"] == "blocked"
        assert len(started(service.agent.ledger, AGENT)) == 2

        again = await service.client.post(f"/images/processing/{blocked_id}/retry")
        assert again.status_code == 202
        assert (await service.ended(again.json()["job_id"]))["status"] == "succeeded"
        assert (await service.job(blocked_id))["status"] == "blocked"
        assert len(started(service.agent.ledger, AGENT)) == 3
        assert isinstance(await quotas.probe(A, QUOTA), Denied), "three calls, three units"


async def test_pictures_that_may_not_be_uploaded_are_rejected_one_by_one(
    engine: AsyncEngine, database: str, pooled: bool, tmp_path: Path
) -> None:
    quotas = QuotaPolicy(engine)
    await quotas.set_quota(A, Operation.IMAGE_UPLOAD, Quota(2, Period.MONTH))
    async with serving(database, tmp_path, quotas, pooled=pooled) as service:
        answer = await service.upload("one", "one", "two", "three")
        assert answer.status_code == 207
        items = answer.json()["items"]
        assert [item["status"] for item in items] == ["created", "duplicate", "created", "rejected"]
        assert items[3]["error"]["error"] == "operation_limit_exceeded"
        assert items[3]["error"]["details"]["retry_at"].endswith("Z")

        alone = await service.upload("three")
        assert (alone.status_code, alone.json()["error"]) == (429, "operation_limit_exceeded")
        assert int(alone.headers["retry-after"]) > 0
        assert len((await service.client.get("/images")).json()["items"]) == 2
        assert not list((tmp_path / "blobs" / "staging").iterdir())


async def test_the_settings_name_the_policy_of_the_commands(database: str, pooled: bool, tmp_path: Path) -> None:
    async def decided(**settings: Any) -> Denied | None:
        given = Settings(data_dir=tmp_path, dsn=database, pooler=pooled, **settings)
        async with open_runtime(given, Parts(policy=None)) as runtime:
            return await runtime.deployment.policy.probe(A, QUOTA)

    assert await decided() is None
    assert await decided(policy="quota") is None
    limited = await decided(policy="quota", quota_units=0, quota_period="hour")
    assert limited is not None
    assert limited.reason is DenialReason.LIMIT_EXCEEDED
    unavailable = await decided(policy="unavailable")
    assert unavailable is not None
    assert unavailable.reason is DenialReason.UNAVAILABLE

    async def answer(*_: object) -> tuple[int, bytes]:
        return 200, b'{"decision": "denied", "reason": "operation_forbidden"}'

    async with offering(PolicyServer(answer, token="the token")) as url:
        forbidden = await decided(policy="http", policy_url=url, policy_token="the token", policy_seconds=30.0)
    assert forbidden == Denied(DenialReason.FORBIDDEN)


async def test_a_process_that_leaves_its_policy_out_allows_nothing_whatever_its_settings(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, dsn=database, pooler=pooled, policy="allow_all")
    async with open_runtime(settings, Parts()) as runtime:
        assert not isinstance(await runtime.deployment.policy.probe(A, QUOTA), Granted | None)

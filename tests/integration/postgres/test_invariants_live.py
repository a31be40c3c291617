"""The invariants by SQL while things happen: beside a worker, and after every step of the pipeline machine."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test
from tests.integration.pipeline.test_postgres_pipeline import PostgresAgentPipeline

from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.invariants import Report, check
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import (
    NOTHING_KNOWN,
    Described,
    ScriptedAgent,
    ScriptedTextModel,
    ScriptedVisualModel,
    name_answer,
)
from imgproc_adapters.testing.pipeline import content_of
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.waiting import until
from imgproc_app.lifecycle import Parts, Runtime, open_runtime, working
from imgproc_app.settings import Settings
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import ContextConflict
from imgproc_domain.policy import Operation
from imgproc_domain.ports.models import AgentCall, Declined
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.edit import delete_meme, edit_context, replace_picture
from imgproc_domain.usecases.ingest import upload

PICTURES: Final = 18
DEADLINE: Final = timedelta(seconds=1)

ANSWERS: Final = (
    NOTHING_KNOWN,
    Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False),
    Declined(Diagnosis(ErrorCode.AGENT_FAILED, "busy"), transient=True, retry_after=timedelta(0)),
)


@asynccontextmanager
async def worked_on(dsn: str, folder: Path, *, pooled: bool) -> AsyncIterator[Runtime]:
    """A worker whose agent sometimes fails in every way it can, under a quota that does not reach for all."""
    chance = random.Random(7)
    agent = ScriptedAgent(hard_deadline=DEADLINE)

    def answer(call: AgentCall) -> Described:
        return chance.choice(ANSWERS) if chance.random() < 0.4 else name_answer(call)

    agent.script.always(answer)
    engine = open_engine(dsn, pool_size=3, pooler=pooled)
    parts = Parts(
        policy=QuotaPolicy(engine, {Operation.ANALYSIS_AGENT: Quota(PICTURES * 2 // 3, Period.MONTH)}),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=agent,
        text=ScriptedTextModel(),
    )
    given = Settings(data_dir=folder, dsn=dsn, pooler=pooled, poll_seconds=0.05, agent_lane=4)
    async with open_runtime(given, parts) as runtime, working(runtime):
        yield runtime
    await engine.dispose()


async def keep_busy(runtime: Runtime, scope: Scope) -> None:
    """Upload pictures and, while they are processed, describe, replace and delete some of them."""
    deployment = runtime.deployment
    for n in range(PICTURES):
        name = f"{scope}-{n}"
        meme = (await upload(deployment, scope, "a.png", content_of(name), ReverseImagePolicy.FORBID)).meme
        match n % 6:
            case 1:
                try:
                    await edit_context(deployment, scope, meme.meme_id, 0, Description(title=name))
                except ContextConflict:
                    # the agent was faster
                    continue
            case 3:
                await replace_picture(deployment, scope, meme.meme_id, None, content_of(f"{name} again"))
            case 5:
                await delete_meme(deployment, scope, meme.meme_id)


async def test_nothing_is_reported_while_a_worker_works(database: str, pooled: bool, tmp_path: Path) -> None:
    async def quiet() -> Report | None:
        report = await check(database, quiescent=True)
        assert {found.invariant for found in report.broken} <= {"rest"}, report.lines()
        return report if report.holds else None

    async with worked_on(database, tmp_path, pooled=pooled) as runtime:
        busy = asyncio.gather(keep_busy(runtime, A), keep_busy(runtime, B))
        looks = 0
        while not busy.done():
            report = await check(database)
            assert report.lines() == []
            looks += 1
        await busy
        report = await until(quiet)
    assert looks > 1
    assert report.scopes >= 2
    assert not any(found.skipped for found in report.results)


async def _found(dsn: str, scope: Scope) -> list[str]:
    return (await check(dsn, [scope])).lines()


class WatchedPipeline(PostgresAgentPipeline):
    @invariant()
    def the_rows_say_the_same(self) -> None:
        assert self.runner.run(_found(self.direct, self.site.scope)) == []


def test_both_ways_to_check_agree_after_every_step(database: str, direct: str, pooled: bool) -> None:
    run_state_machine_as_test(
        type("Machine", (WatchedPipeline,), {"dsn": database, "direct": direct, "pooled": pooled}),
        settings=settings(
            max_examples=5, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )

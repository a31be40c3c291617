"""Two versions of a host's application at once, over one database: a rolling deploy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.waiting import until
from imgproc_app import build
from imgproc_app.cli.overview import look
from imgproc_app.hosting import Application
from imgproc_app.settings import Settings
from imgproc_domain.job import Job, JobStatus
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.views import get_job


@asynccontextmanager
async def _version(settings: Settings, agent: str) -> AsyncIterator[Application]:
    async with build(
        settings,
        operation_policy=AllowAllPolicy(),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(agent),
        text=ScriptedTextModel(),
    ) as application:
        yield application


async def _picture() -> AsyncIterator[bytes]:
    yield b"cat"


async def test_what_the_older_version_takes_in_the_newer_one_processes(
    database: str, pooled: bool, tmp_path: Path
) -> None:
    scope = Scope("local")
    settings = Settings(data_dir=tmp_path, dsn=database, pooler=pooled, poll_seconds=0.1)
    async with _version(settings, "agent 1") as old, _version(settings, "agent 2") as new:
        assert not (await look(old.runtime)).superseded
        async with old.working(), new.working():
            uploaded = await upload(old.deployment, scope, "cat.png", _picture(), ReverseImagePolicy.FORBID)
            assert uploaded.job is not None
            job_id = uploaded.job.job_id

            async def ended() -> Job | None:
                job = (await get_job(old.deployment, scope, job_id)).job
                return None if job.live else job

            job = await until(ended)
        assert (job.status, job.config_fingerprint) == (JobStatus.SUCCEEDED, new.deployment.config.fingerprint)
        seen = await look(old.runtime)
        assert seen.document()["superseded"]
        assert any("in force" in remark for remark in seen.remarks())
        assert not (await look(new.runtime)).superseded

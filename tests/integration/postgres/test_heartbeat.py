"""Renewal goes on whatever happens to rows, connections and servers."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_job, make_meme, make_task
from imgproc_domain.claim import Claim
from imgproc_domain.errors import DatabaseUnavailable
from imgproc_domain.ids import WorkerId
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Stage, TaskType
from imgproc_domain.task import Task

A = Scope("heartbeat-a")
OWNER = WorkerId("worker")
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
PATIENCE = 30.0
TERMINATE = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'
"""


@pytest.fixture
def heartbeat(database: str, pooled: bool) -> Iterator[PostgresHeartbeat]:
    heartbeat = PostgresHeartbeat(database, pooler=pooled)
    yield heartbeat
    heartbeat.close()


@pytest_asyncio.fixture
async def running(uow: PostgresUnitOfWork) -> list[Task]:
    memes = [make_meme(A) for _ in range(3)]
    jobs = [make_job(meme) for meme in memes]
    async with uow.begin(A) as tx:
        for meme in memes:
            await tx.memes.add(meme)
        await tx.jobs.add(jobs)
        await tx.tasks.add([make_task(job, Stage.VISUAL) for job in jobs])
        return list(await tx.claims.claim(TaskType.VISUAL, 3, OWNER, MINUTE))


async def test_a_locked_row_delays_nobody(
    heartbeat: PostgresHeartbeat, uow: PostgresUnitOfWork, running: list[Task]
) -> None:
    claims = [task.claim for task in running]
    async with uow.begin(A) as settling:
        await settling.claims.lock(claims[:1])
        renewal = asyncio.to_thread(heartbeat.renew, claims, HOUR)
        assert not await asyncio.wait_for(renewal, PATIENCE)
    async with uow.begin(A) as tx:
        now = await tx.now()
        seen = await tx.tasks.get([task.task_id for task in running])
    left = {key: task.lease.expires_at - now > MINUTE for key, task in seen.items() if task.lease.expires_at}
    assert left == {running[0].task_id: False, running[1].task_id: True, running[2].task_id: True}


async def test_a_connection_that_was_ended_is_replaced_at_once(
    heartbeat: PostgresHeartbeat, direct: str, running: list[Task]
) -> None:
    claims = [task.claim for task in running]
    assert not heartbeat.renew(claims, HOUR)
    with psycopg.connect(direct) as other:
        other.execute(TERMINATE)
    assert not heartbeat.renew(claims, HOUR)


def test_a_database_that_does_not_answer_is_said_to_be_unavailable(database: str, pooled: bool) -> None:
    nowhere = make_conninfo(database, dbname="no_such_database")
    heartbeat = PostgresHeartbeat(nowhere, pooler=pooled)
    task_id = make_task(make_job(make_meme(A)), Stage.VISUAL).task_id
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            heartbeat.renew([Claim(A, task_id, OWNER, 1)], MINUTE)
    heartbeat.close()


async def test_renewals_touch_no_index(heartbeat: PostgresHeartbeat, direct: str, running: list[Task]) -> None:
    claims = [task.claim for task in running]
    for _ in range(5):
        assert not heartbeat.renew(claims, HOUR)
    heartbeat.close()
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tasks'"
    async with asyncio.timeout(PATIENCE), await psycopg.AsyncConnection.connect(direct, autocommit=True) as watcher:
        updated, hot = 0, 0
        while updated < 5 * len(claims):
            updated, hot = await (await watcher.execute(query)).fetchone() or (0, 0)
            await asyncio.sleep(0.05)
    assert hot >= 5 * len(claims)

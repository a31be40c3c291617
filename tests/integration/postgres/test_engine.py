"""Connections that end, time out, or go through a pooler."""

import asyncio
from datetime import UTC

import psycopg
import pytest
from attrs import evolve
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.pooler import unpooled

from imgproc_adapters.postgres.conninfo import Limits
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import statement
from imgproc_adapters.postgres.spaces import register_spaces
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.testing.factories import make_job, make_meme, make_task, new_id
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import CommitOutcomeUnknown, Conflict, DatabaseUnavailable, InvalidValue
from imgproc_domain.ids import GrantId
from imgproc_domain.scope import Scope
from imgproc_domain.stage import Stage

A = Scope("engine-a")
TIMEOUTS = unpooled("the server's time-outs are those of the role")
TERMINATE = """
    SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'
"""


async def terminate(direct: str) -> None:
    async with await psycopg.AsyncConnection.connect(direct) as other:
        await other.execute(TERMINATE)


async def ended(direct: str) -> None:
    """Return once no connection of the database is inside a transaction."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
    async with asyncio.timeout(30), await psycopg.AsyncConnection.connect(direct, autocommit=True) as watcher:
        while True:
            if await (await watcher.execute(query)).fetchone() == (0,):
                return
            await asyncio.sleep(0.01)


async def waits(direct: str) -> None:
    """Return once a connection of the database waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(30), await psycopg.AsyncConnection.connect(direct, autocommit=True) as watcher:
        while True:
            if await (await watcher.execute(query)).fetchone() == (1,):
                return
            await asyncio.sleep(0.01)


async def test_idle_connections_that_the_server_ended_are_replaced_unnoticed(
    uow: PostgresUnitOfWork, direct: str
) -> None:
    async with uow.begin(A) as first, uow.begin(A) as second:
        await first.now()
        await second.now()
    await terminate(direct)
    for _ in range(3):
        async with uow.begin(A) as tx:
            assert await tx.memes.count() == 0


async def test_a_connection_lost_inside_a_transaction_keeps_nothing(uow: PostgresUnitOfWork, direct: str) -> None:
    meme = make_meme(A)

    async def interrupted() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.add(meme)
            await terminate(direct)
            await tx.memes.count()

    with pytest.raises(DatabaseUnavailable) as lost:
        await interrupted()
    assert not isinstance(lost.value, CommitOutcomeUnknown)
    async with uow.begin(A) as tx:
        assert not await tx.memes.get([meme.meme_id])


async def test_a_connection_lost_at_commit_leaves_the_outcome_unknown(uow: PostgresUnitOfWork, direct: str) -> None:
    async def interrupted() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.add(make_meme(A))
            await terminate(direct)

    with pytest.raises(CommitOutcomeUnknown):
        await interrupted()
    async with uow.begin(A) as tx:
        assert await tx.memes.count() == 0


DEFERRED = """
    ALTER TABLE tasks ADD CONSTRAINT fk_tasks_grant FOREIGN KEY (scope_id, grant_id)
    REFERENCES operation_grants DEFERRABLE INITIALLY DEFERRED
"""


async def test_what_is_refused_at_commit_was_not_kept_for_certain(uow: PostgresUnitOfWork, direct: str) -> None:
    # the schema defers nothing itself; a host's own rules may
    async with await psycopg.AsyncConnection.connect(direct) as host:
        await host.execute(DEFERRED)
    meme = make_meme(A)
    job = make_job(meme)
    task = evolve(make_task(job, Stage.AGENT), grant_id=GrantId(new_id()))

    async def write() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.add(meme)
            await tx.jobs.add([job])
            await tx.tasks.add([task])

    with pytest.raises(Conflict, match="fk_tasks_grant"):
        await write()


FULL = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON image_processing_jobs FOR EACH ROW EXECUTE FUNCTION full_disk()
"""


async def test_new_rows_that_there_is_no_room_for_were_not_kept_for_certain(
    uow: PostgresUnitOfWork, direct: str
) -> None:
    async with await psycopg.AsyncConnection.connect(direct) as host:
        await host.execute(FULL)
    meme = make_meme(A)

    async def write() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.add(meme)
            await tx.jobs.add([make_job(meme)])

    with pytest.raises(DatabaseUnavailable, match="no space left") as refused:
        await write()
    assert not isinstance(refused.value, CommitOutcomeUnknown)


async def test_new_rows_that_are_refused_cost_no_connection(database: str, pooled: bool) -> None:
    engine = open_engine(database, pool_size=1, pooler=pooled)
    uow = PostgresUnitOfWork(engine)
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)
    async with checked_out(engine) as before:
        pass
    with pytest.raises(Conflict):
        async with uow.begin(A) as tx:
            await tx.jobs.add([make_job(meme), make_job(meme)])
    async with checked_out(engine) as after:
        assert after is before
    await engine.dispose()


@TIMEOUTS
async def test_a_statement_that_takes_too_long_is_ended(database: str) -> None:
    engine = open_engine(database, limits=Limits(statement=0.1))
    with pytest.raises(DatabaseUnavailable, match="statement timeout"):
        async with PostgresUnitOfWork(engine).begin(A) as tx:
            await tx._session.rows(statement("SELECT pg_sleep(60)"))  # type: ignore[attr-defined] # a test may look inside
    await engine.dispose()


@TIMEOUTS
async def test_a_transaction_that_stands_still_is_ended(database: str) -> None:
    engine = open_engine(database, limits=Limits(idle_in_transaction=0.1))

    async def stand_still() -> None:
        async with PostgresUnitOfWork(engine).begin(A) as tx:
            await tx.memes.count()
            await ended(database)
            await tx.memes.count()

    with pytest.raises(DatabaseUnavailable, match="idle-in-transaction"):
        await stand_still()
    await engine.dispose()


async def test_a_transaction_that_is_cancelled_while_it_waits_harms_nobody(
    database: str, direct: str, pooled: bool
) -> None:
    engine = open_engine(database, pool_size=1, pooler=pooled)
    uow = PostgresUnitOfWork(engine)
    meme = make_meme(A)
    async with uow.begin(A) as tx:
        await tx.memes.add(meme)

    async def late() -> None:
        async with uow.begin(A) as tx:
            await tx.memes.lock([meme.meme_id])

    async with uow.begin(A) as holder:
        await holder.memes.lock([meme.meme_id])
        waiter = asyncio.create_task(late())
        await waits(direct)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    for _ in range(3):
        await late()
    await engine.dispose()


async def test_a_pool_that_is_used_up_is_said_to_be_unavailable(database: str, pooled: bool) -> None:
    engine = open_engine(database, pool_size=1, pool_timeout=0.05, pooler=pooled)
    uow = PostgresUnitOfWork(engine)
    async with uow.begin(A), uow.begin(A):
        with pytest.raises(DatabaseUnavailable, match="pool"):
            async with uow.begin(A):
                pytest.fail("there is no third connection")
    await engine.dispose()


async def test_a_database_that_is_not_there_is_unavailable() -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseUnavailable):
        async with PostgresUnitOfWork(engine).begin(A):
            pytest.fail("there is no database")
    await engine.dispose()


async def test_text_with_a_nul_is_an_invalid_value(uow: PostgresUnitOfWork) -> None:
    meme = make_meme(A)
    broken = evolve(meme, picture=evolve(meme.picture, storage_key="a\0b"))
    with pytest.raises(InvalidValue):
        async with uow.begin(A) as tx:
            await tx.memes.add(broken)


@pytest.mark.parametrize("pooler", [False, True])
async def test_times_are_utc_in_a_database_of_another_time_zone(database: str, direct: str, *, pooler: bool) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    async with await psycopg.AsyncConnection.connect(direct, autocommit=True) as other:
        await other.execute(f"ALTER DATABASE {name} SET TimeZone = 'Asia/Shanghai'".encode())
    engine = open_engine(database if pooler else direct, pooler=pooler)
    meme = make_meme(A)
    async with PostgresUnitOfWork(engine).begin(A) as tx:
        await tx.memes.add(meme)
        (stored,) = (await tx.memes.get([meme.meme_id])).values()
        assert stored == meme
        assert stored.created_at.utcoffset() == (await tx.now()).utcoffset() == UTC.utcoffset(None)
    await engine.dispose()


async def test_a_pooled_connection_prepares_nothing_and_sets_nothing(database: str) -> None:
    engine = open_engine(database, pooler=True)
    uow = PostgresUnitOfWork(engine)
    for _ in range(10):
        async with uow.begin(A) as tx:
            await tx.memes.count()
            left = await tx._session.rows(statement("SELECT count(*) FROM pg_prepared_statements"))  # type: ignore[attr-defined] # a test may look inside
            assert left == [(0,)]
    await engine.dispose()


async def test_a_space_stands_for_one_dimension_for_ever(engine: AsyncEngine) -> None:
    await register_spaces(engine, [VectorSpace("model-1", 8), VectorSpace("model-2", 16)])
    await register_spaces(engine, [VectorSpace("model-1", 8)])
    with pytest.raises(InvalidValue, match="another space id"):
        await register_spaces(engine, [VectorSpace("model-1", 16)])

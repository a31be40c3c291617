"""The adapters run unchanged on tables that are cut by scope, and every statement of theirs reads one partition.

So a very large installation can cut its tables by hash, and, as the same rules are what Citus asks for, spread them
over servers: see docs/scaling.md.
"""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from tests.integration.postgres.conftest import cloned
from tests.integration.postgres.outcomes import populate
from tests.integration.postgres.partitioned import (
    PARTITIONED,
    PARTITIONS,
    REFERENCE_TABLES,
    create_partitioned,
)

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.heartbeat import PostgresHeartbeat
from imgproc_adapters.postgres.invariants import check
from imgproc_adapters.postgres.notify import PostgresListener
from imgproc_adapters.postgres.tables import METADATA
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.pipeline import content_of
from imgproc_adapters.testing.waiting import until
from imgproc_app.worker import ImageProcessingWorker, Pace
from imgproc_domain.events import JobEnded
from imgproc_domain.job import JobStatus
from imgproc_domain.scope import Scope
from imgproc_domain.search import Query
from imgproc_domain.stage import Lane, ReverseImagePolicy
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.search import search

SCOPES: Final = tuple(Scope(f"cut-{name}") for name in ("a", "b", "c"))
PICTURES: Final = 7

CONSTRAINTS: Final = """
    SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conparentid = 0 AND contype <> 'n' AND coninhcount = 0
      AND conrelid::regclass::text <> 'imgproc_alembic_version'
"""
INDEXES: Final = """
    SELECT indexrelid::regclass::text, indisunique, pg_get_expr(indpred, indrelid),
           regexp_replace(pg_get_indexdef(indexrelid), ' ON (ONLY )?', ' ON ')
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND indisvalid
      AND indrelid::regclass::text <> 'imgproc_alembic_version'
"""
CUT: Final = """
    SELECT p.relname, count(i.inhrelid) FROM pg_class p JOIN pg_inherits i ON i.inhparent = p.oid
    WHERE p.relkind = 'p' AND pg_get_partkeydef(p.oid) = 'HASH (scope_id)' GROUP BY p.relname
"""
OVER_ALL_SCOPES: Final = re.compile(
    r"WITH RECURSIVE (?:hop|each)|ORDER BY scope_id, available_at|FROM scopes\b.*> %", re.DOTALL
)
"""What looks for scopes with work, or with rows, reads every partition; it writes nothing."""


@pytest.fixture(scope="session")
def cut_template(postgres_server: str, empty_template: str) -> Iterator[str]:
    name = f"cut_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {empty_template} STRATEGY file_copy".encode())
        create_partitioned(make_conninfo(postgres_server, dbname=name))
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def cut(postgres_server: str, cut_template: str) -> Iterator[str]:
    """A database of this test's own whose tables are cut by scope."""
    yield from cloned(postgres_server, cut_template)


def catalog(dsn: str, query: str) -> set[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return set(connection.execute(query.encode()).fetchall())


def test_every_table_with_scopes_is_cut_and_keeps_every_rule(cut: str, direct: str) -> None:
    assert set(METADATA.tables) == {*PARTITIONED, *REFERENCE_TABLES}
    assert catalog(cut, CUT) == {(name, PARTITIONS) for name in PARTITIONED}
    assert catalog(cut, CONSTRAINTS) == catalog(direct, CONSTRAINTS)
    assert catalog(cut, INDEXES) == catalog(direct, INDEXES)


@pytest_asyncio.fixture
async def deployment(cut: str) -> AsyncIterator[Deployment]:
    engine = open_engine(cut, pool_size=4)
    yield Deployment(
        uow=PostgresUnitOfWork(engine),
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=ScriptedAgent(),
        text=ScriptedTextModel(),
        policy=AllowAllPolicy(),
        ids=SystemIds(),
        observer=RecordingObserver(),
    )
    await engine.dispose()


async def test_a_worker_does_pictures_of_several_scopes_and_each_scope_finds_its_own(
    deployment: Deployment, cut: str
) -> None:
    engine = open_engine(cut, pool_size=4)
    made = {scope: set[object]() for scope in SCOPES}
    for scope in SCOPES:
        async with deployment.uow.begin(scope) as tx:
            await tx.slots.resize(Lane.AGENT, 4)
        for number in range(PICTURES):
            name = f"{scope}-{number}"
            uploaded = await upload(deployment, scope, name, content_of(name), ReverseImagePolicy.FORBID)
            made[scope].add(uploaded.meme.meme_id)
    worker = ImageProcessingWorker(
        deployment, PostgresDispatch(engine), PostgresHeartbeat(cut), PostgresListener(cut), Pace(poll=0.2, sweep=0.2)
    )
    await worker.start()
    try:
        await until(partial(all_ended, deployment))
    finally:
        await worker.stop()
        await engine.dispose()
    assert set(ended(deployment)) == {JobStatus.SUCCEEDED}
    for scope in SCOPES:
        answer = await search(deployment, scope, Query("a picture", n_results=50))
        assert {hit.meme_id for hit in answer.hits} == made[scope]
    report = await check(cut, quiescent=True)
    assert not report.broken, report.lines()
    assert len(catalog(cut, "SELECT DISTINCT tableoid FROM tasks")) > 1
    assert catalog(cut, "SELECT scope_id FROM tasks GROUP BY scope_id HAVING count(DISTINCT tableoid) > 1") == set()


async def all_ended(deployment: Deployment) -> bool | None:
    return True if len(ended(deployment)) == len(SCOPES) * PICTURES else None


def ended(deployment: Deployment) -> list[JobStatus]:
    observer = deployment.observer
    assert isinstance(observer, RecordingObserver)
    return [event.status for event in observer.events if isinstance(event, JobEnded)]


class Recorder:
    """Keeps every statement that is sent, with the values it was first sent with."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: dict[bytes, Mapping[str, Any]] = {}
        execute = AsyncConnection.execute

        async def noted(connection: AsyncConnection[Any], query: Any, params: Any = None, **options: Any) -> Any:
            if isinstance(query, bytes) and isinstance(params, Mapping):
                self.sent.setdefault(query, params)
            return await execute(connection, query, params, **options)

        patch.setattr(AsyncConnection, "execute", noted)


@pytest.mark.parametrize("under_way", [True, False])
async def test_every_way_a_picture_can_go_reads_one_partition_a_statement(
    cut: str, under_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        await populate(cut, under_way=under_way)
        report = await check(cut, quiescent=not under_way)
    assert not report.broken, report.lines()
    scoped = {sql: values for sql, values in recorder.sent.items() if not OVER_ALL_SCOPES.search(sql.decode())}
    assert len(scoped) > 60
    engine = open_engine(cut, pool_size=1)
    async with engine.connect() as pooled:
        raw: Any = (await pooled.get_raw_connection()).driver_connection
        wide = {sql.decode(): found for sql, values in scoped.items() if (found := await several(raw, sql, values))}
    await engine.dispose()
    assert wide == {}


async def several(connection: AsyncConnection[Any], sql: bytes, values: Mapping[str, Any]) -> Mapping[str, set[str]]:
    """Return the tables of which a statement touches more than one partition.

    What only reads is run: a partition that its plan has, but that is found to be another scope's meanwhile, is none.
    """
    how = b"ANALYZE, " if sql.split(None, 1)[0] == b"SELECT" else b""
    cursor = await connection.execute(b"EXPLAIN (" + how + b"FORMAT JSON) " + sql, values)
    ((plan,),) = await cursor.fetchall()
    touched: defaultdict[str, set[str]] = defaultdict(set)
    for relation in relations(plan if isinstance(plan, list) else json.loads(plan)):
        name, _, number = relation.rpartition("_")
        if name in PARTITIONED and number.isdigit():
            touched[name].add(relation)
    return {name: found for name, found in touched.items() if len(found) > 1}


def relations(node: Any) -> Iterator[str]:
    """Yield the tables of a plan's nodes, of those that were run if it was run."""
    if isinstance(node, list):
        for each in node:
            yield from relations(each)
    elif isinstance(node, dict):
        if "Relation Name" in node and node.get("Actual Loops", 1):
            yield node["Relation Name"]
        for each in node.values():
            yield from relations(each)

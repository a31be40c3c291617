"""A real PostgreSQL for every test: one server a test process, one freshly migrated database a test.

With ``IMGPROC_TEST_DSN`` (of a role that may create databases, and pgvector installed) that server is used instead.
With ``IMGPROC_TEST_POOLER=1`` the tests reach it through pgbouncer in transaction mode: ``make test-pooler``.
"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from itertools import count
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.pooler import MISSING, POOLED, pooling, program

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.conninfo import Limits
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork

NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of a server's maintenance database."""
    given = os.environ.get("IMGPROC_TEST_DSN")
    if given:
        yield given
        return
    data_dir = tmp_path_factory.mktemp("postgres")
    with EmbeddedPostgres(data_dir, durable=False) as server:
        yield server.dsn("postgres")
    shutil.rmtree(data_dir)


def within(server: str, database: str) -> str:
    return make_conninfo(server, dbname=database)


def command(server: str, statement: str, *names: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*(sql.Identifier(name) for name in names)))


@pytest.fixture(scope="session")
def empty_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with nothing in it but pgvector."""
    yield from _template(postgres_server, migrated=False)


@pytest.fixture(scope="session")
def migrated_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with our schema in it."""
    yield from _template(postgres_server, migrated=True)


def _template(server: str, *, migrated: bool) -> Iterator[str]:
    name = f"imgproc_template_{uuid4().hex[:12]}"
    command(server, "CREATE DATABASE {}", name)
    command(within(server, name), "CREATE EXTENSION IF NOT EXISTS vector")
    if migrated:
        migrate.upgrade(within(server, name))
    yield name
    command(server, "DROP DATABASE {} WITH (FORCE)", name)


def _clone(server: str, template: str) -> Iterator[str]:
    name = f"{template}_{next(NUMBERS)}"
    command(server, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
    yield within(server, name)
    command(server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture(scope="session")
def pooled() -> bool:
    """Whether `database` leads through a pooler: what is opened for it has to be told."""
    return POOLED


@pytest.fixture(scope="session")
def pooler_server(postgres_server: str) -> Iterator[str]:
    """The connection string of the maintenance database through pgbouncer."""
    if program() is None:
        (pytest.fail if POOLED else pytest.skip)(MISSING)
    with pooling(postgres_server) as dsn:
        yield dsn


@pytest.fixture
def direct(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """The server's own address of `database`, for those who look on, hold a lock or listen beside the test."""
    yield from _clone(postgres_server, migrated_template)


@pytest.fixture
def database(direct: str, pooled: bool, request: pytest.FixtureRequest) -> str:
    """The connection string of a database of this test's own, with our schema and no row."""
    return _address(direct, request) if pooled else direct


@pytest.fixture
def direct_empty(postgres_server: str, empty_template: str) -> Iterator[str]:
    """The server's own address of `empty_database`."""
    yield from _clone(postgres_server, empty_template)


@pytest.fixture
def empty_database(direct_empty: str, pooled: bool, request: pytest.FixtureRequest) -> str:
    """The connection string of a database of this test's own, without our schema."""
    return _address(direct_empty, request) if pooled else direct_empty


def _address(direct: str, request: pytest.FixtureRequest) -> str:
    """Return the way through the pooler, which is started when somebody first goes it."""
    server: str = request.getfixturevalue("pooler_server")
    return within(server, str(conninfo_to_dict(direct)["dbname"]))


@pytest_asyncio.fixture
async def engine(database: str, pooled: bool) -> AsyncIterator[AsyncEngine]:
    # a test that interleaves transactions by hand leaves them idle for as long as a busy machine makes it wait
    engine = open_engine(database, pooler=pooled, limits=Limits(idle_in_transaction=60.0))
    yield engine
    await engine.dispose()


@pytest.fixture
def uow(engine: AsyncEngine) -> PostgresUnitOfWork:
    return PostgresUnitOfWork(engine)

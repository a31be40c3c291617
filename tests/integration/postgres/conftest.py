"""Databases in which everything has happened: made once a test process, cloned for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Final
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.postgres.outcomes import populate

from imgproc_adapters.postgres.engine import open_engine

NUMBERS: Final = count(1)


def cloned(server: str, template: str) -> Iterator[str]:
    name = f"{template}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
        yield make_conninfo(server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def populated(server: str, migrated: str, *, under_way: bool) -> Iterator[str]:
    """Yield the name of a database in which everything has happened."""
    name = f"outcomes_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {migrated} STRATEGY file_copy".encode())
        asyncio.run(populate(make_conninfo(server, dbname=name), under_way=under_way))
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def busy_template(postgres_server: str, migrated_template: str) -> Iterator[str]:
    yield from populated(postgres_server, migrated_template, under_way=True)


@pytest.fixture(scope="session")
def quiet_template(postgres_server: str, migrated_template: str) -> Iterator[str]:
    yield from populated(postgres_server, migrated_template, under_way=False)


@pytest.fixture
def busy(postgres_server: str, busy_template: str) -> Iterator[str]:
    """A database of this test's own with pictures that went every way, some of them under way."""
    yield from cloned(postgres_server, busy_template)


@pytest.fixture
def quiet(postgres_server: str, quiet_template: str) -> Iterator[str]:
    """As `busy`, with nothing under way."""
    yield from cloned(postgres_server, quiet_template)


@pytest_asyncio.fixture
async def lone(database: str, pooled: bool) -> AsyncIterator[AsyncEngine]:
    """An engine with one connection, so that every statement goes over the one that is watched."""
    engine = open_engine(database, pool_size=1, pooler=pooled)
    yield engine
    await engine.dispose()

"""Submits a second: one job a transaction, many a transaction, and the limit: COPY of the rows they leave."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import psycopg
from attrs import frozen
from psycopg import sql

from benchmarks.rig import SCOPE, open_rig, seed_memes
from benchmarks.server import Database, fresh_database
from imgproc_adapters.postgres.schema import METADATA

_NOT_OF_A_SUBMIT: Final = ("scopes", "memes")


@frozen
class Copied:
    """What COPY did with the rows of so many submitted jobs."""

    jobs_per_s: float
    rows_per_job: float


async def submit_each(database: Database, jobs: int) -> float:
    """Return submits a second of one client, one job a transaction, one after the other."""
    memes = await asyncio.to_thread(seed_memes, database, jobs)
    async with open_rig(database.dsn) as one:
        begun = time.monotonic()
        for meme in memes:
            await one.submit([meme])
        return jobs / (time.monotonic() - begun)


async def submit_many(database: Database, jobs: int) -> float:
    """Return submits a second of one client, with as many jobs a transaction as `rig.CHUNK`."""
    memes = await asyncio.to_thread(seed_memes, database, jobs)
    async with open_rig(database.dsn) as one:
        begun = time.monotonic()
        await one.submit(memes)
        return jobs / (time.monotonic() - begun)


def copy_limit(database: Database) -> Copied:
    """COPY everything that submits have left in a database into a new one, in one transaction, and time that.

    Whatever a submit writes, now or later, is found by looking: every table with rows of the scope.
    """
    tables = [table.name for table in METADATA.sorted_tables if "scope_id" in table.c]
    with fresh_database(database.server, f"{database.name}_copy") as target:
        rows = {table: _out(database, table) for table in tables}
        _in(target, {table: rows[table] for table in _NOT_OF_A_SUBMIT})
        target.settle()
        written = {table: lines for table, lines in rows.items() if lines and table not in _NOT_OF_A_SUBMIT}
        begun = time.monotonic()
        _in(target, written)
        seconds = time.monotonic() - begun
        jobs = int(target.scalar("SELECT count(*) FROM image_processing_jobs"))
    assert jobs > 0, "there is nothing to copy"
    return Copied(jobs / seconds, sum(map(len, written.values())) / jobs)


def _out(database: Database, table: str) -> Sequence[bytes]:
    query = sql.SQL("COPY (SELECT * FROM {} WHERE scope_id = {}) TO STDOUT").format(
        sql.Identifier(table), sql.Literal(SCOPE)
    )
    with psycopg.connect(database.dsn) as connection, connection.cursor().copy(query) as copy:
        return [bytes(line) for line in copy]


def _in(database: Database, rows: dict[str, Sequence[bytes]]) -> None:
    with psycopg.connect(database.dsn) as connection:
        for table, lines in rows.items():
            command = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))
            with connection.cursor().copy(command) as copy:
                copy.write(b"".join(lines))

"""The database: reachable, new enough, with its extensions, a locale that knows letters, and the schema."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import psycopg
from attrs import frozen

from imgproc_adapters.postgres import migrate
from imgproc_adapters.postgres.conninfo import connect_blocking
from imgproc_adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from imgproc_app.cli.problems import in_words
from imgproc_app.doctor.check import Check, failed, ok, warning
from imgproc_app.lifecycle import check_dsn
from imgproc_app.settings import Settings
from imgproc_domain.errors import ImgprocError

OLDEST, NEWEST = 15, 18
_OLDEST_VECTOR: Final = (0, 8)

_FACTS: Final = """
    SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version'),
      (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
      (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
      (SELECT extversion FROM pg_extension WHERE extname = 'btree_gin'),
      (SELECT default_version FROM pg_available_extensions WHERE name = 'btree_gin'),
      datctype, pg_encoding_to_char(encoding)
    FROM pg_database WHERE datname = current_database()
"""


@frozen
class Facts:
    """What a server says of itself; an extension's first version is the installed one, the second the available."""

    major: int
    version: str
    vector: str | None
    vector_available: str | None
    btree_gin: str | None
    btree_gin_available: str | None
    ctype: str
    encoding: str


async def examine_database(settings: Settings) -> AsyncIterator[Check]:
    if settings.dsn is not None:
        for check in await asyncio.to_thread(_examine, settings.dsn, embedded=False):
            yield check
        return
    server = EmbeddedPostgres(settings.cluster_dir)
    try:
        await asyncio.to_thread(server.start)
        for check in await asyncio.to_thread(_examine, server.dsn(), embedded=True):
            yield check
    except EmbeddedPostgresError as error:
        yield _not_started(server, error)
    finally:
        await asyncio.to_thread(server.stop)


def _not_started(server: EmbeddedPostgres, error: EmbeddedPostgresError) -> Check:
    fix = "use a server of your own with --dsn"
    if isinstance(error.__cause__, OSError):
        fix = f"give your user access to {server.data_dir}, or {fix}"
    elif os.path.exists(server.log_path):  # noqa: PTH110 - unlike Path.exists, false for what may not be looked at
        fix = f"see {server.log_path}, or {fix}"
    return failed("database", in_words(error), fix)


def judge(facts: Facts) -> Iterator[Check]:
    """Yield what to think of a server, newest conditions last."""
    yield _server_version(facts)
    yield _extension("pgvector", "vector", facts.vector, facts.vector_available, oldest=_OLDEST_VECTOR)
    yield _extension("btree_gin", "btree_gin", facts.btree_gin, facts.btree_gin_available, oldest=None)
    yield _locale(facts)


def _examine(dsn: str, *, embedded: bool) -> list[Check]:
    kind = "the embedded server" if embedded else "the server"
    try:
        check_dsn(dsn)
        with connect_blocking(dsn) as connection:
            facts = Facts(*_only(connection))
        revision = migrate.current(dsn)
    except (psycopg.Error, ImgprocError) as error:
        fix = "is the server up, and the address, user and password in --dsn (IMGPROC_DSN) right?"
        return [failed("database", f"{kind} cannot be used: {_first_line(error)}", fix)]
    checks = [ok("database", f"{kind} answers"), *judge(facts)]
    return [*checks, _schema(revision, embedded=embedded)]


def _only(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[Any, ...]:
    row = connection.execute(_FACTS).fetchone()
    assert row is not None, "a connection has a database"
    return row


def _server_version(facts: Facts) -> Check:
    if facts.major < OLDEST:
        return failed("server version", facts.version, f"PostgreSQL {OLDEST} to {NEWEST} is needed")
    if facts.major > NEWEST:
        return warning("server version", facts.version, f"newer than what imgproc is tested on ({OLDEST} to {NEWEST})")
    return ok("server version", facts.version)


def _extension(
    title: str, name: str, installed: str | None, available: str | None, oldest: tuple[int, ...] | None
) -> Check:
    if installed is None and available is None:
        return failed(title, "not on this server", f"install {title} on the server's machine")
    found = installed or f"{available}, not created in this database yet"
    if oldest is not None and _numbers(installed or available or "") < oldest:
        wanted = ".".join(map(str, oldest))
        return failed(title, found, f"{wanted} or newer is needed: update it, then ALTER EXTENSION {name} UPDATE")
    if installed is None:
        return warning(title, found, f"a superuser runs CREATE EXTENSION {name}; 'imgproc migrate' tries to")
    return ok(title, found)


def _locale(facts: Facts) -> Check:
    found = f"{facts.ctype}, {facts.encoding}"
    fix = "create the database with LC_CTYPE 'C.UTF-8' and encoding UTF8"
    if facts.encoding != "UTF8":
        return failed("locale", found, fix)
    if facts.ctype in ("C", "POSIX"):
        return warning("locale", f"{found}: file names that are not English are listed only in their own case", fix)
    return ok("locale", found)


def _schema(revision: str | None, *, embedded: bool) -> Check:
    head = migrate.head()
    if revision == head:
        return ok("schema", f"revision {revision}")
    if embedded:
        return ok("schema", f"{revision or 'empty'}: brought to {head} when imgproc is next used")
    return failed("schema", f"{revision or 'empty'}, this version needs {head}", "run 'imgproc migrate'")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, ImgprocError) else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__

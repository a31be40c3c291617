"""Whether this process can be of use now: what ``/health/ready`` asks."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.models.host import ModelCallFailed
from imgproc_adapters.postgres import migrate
from imgproc_app.lifecycle import Runtime
from imgproc_domain.errors import ImgprocError

_PATIENCE: Final = 3.0

_FACTS: Final = text(
    f"SELECT (SELECT version_num FROM {migrate.VERSION_TABLE}), "  # noqa: S608 - a constant of ours
    "EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"
)


class Readiness:
    """Checks schema revision, pgvector, blob store and models. Reasons may be shown to anybody."""

    def __init__(self, runtime: Runtime) -> None:
        self._engine = runtime.engine
        self._blob_dir = runtime.settings.blob_dir
        self._head = migrate.head()
        self._warming = asyncio.create_task(runtime.warm(), name="imgproc-warm")

    async def __call__(self) -> Mapping[str, str | None]:
        schema, pgvector = await _database(self._engine, self._head)
        blobs = await asyncio.to_thread(_writable, self._blob_dir)
        return {"schema": schema, "pgvector": pgvector, "blobs": blobs, "models": self._models()}

    async def warmed(self) -> None:
        """Return once the models are loaded; raises `ModelCallFailed` if one cannot be."""
        await asyncio.shield(self._warming)

    async def close(self) -> None:
        self._warming.cancel()
        await asyncio.wait([self._warming])
        if not self._warming.cancelled():
            self._warming.exception()

    def _models(self) -> str | None:
        if not self._warming.done():
            return "the models are being loaded"
        if self._warming.cancelled():
            return "the service is stopping"
        error = self._warming.exception()
        return str(error) if isinstance(error, ModelCallFailed) else None


async def _database(engine: AsyncEngine, head: str) -> tuple[str | None, str | None]:
    """Return what is wrong with the schema and with pgvector."""
    try:
        async with asyncio.timeout(_PATIENCE), engine.connect() as connection:
            revision, vector = (await connection.execute(_FACTS)).one()
    except (TimeoutError, OSError, SQLAlchemyError, ImgprocError):
        return "the database does not answer", "the database does not answer"
    schema = None if revision == head else f"revision {revision} in place of {head}"
    return schema, None if vector else "the extension is missing"


def _writable(folder: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"imgproc")
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return None

"""The scopes there are."""

from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.postgres.errors import translated
from imgproc_adapters.postgres.pool import checked_out
from imgproc_adapters.postgres.session import statement
from imgproc_domain.scope import Scope

_BEHIND: Final = statement("SELECT scope_id FROM scopes WHERE scope_id > %(after)s ORDER BY scope_id LIMIT %(limit)s")
_PAGE: Final = 200


async def each_scope(engine: AsyncEngine) -> AsyncIterator[Scope]:
    """Yield every scope in order; no connection is held in between. Raises `DatabaseUnavailable`."""
    after = ""
    while True:
        async with checked_out(engine, autocommit=True) as connection:
            with translated():
                rows = await (await connection.execute(_BEHIND, {"after": after, "limit": _PAGE})).fetchall()
        for (scope,) in rows:
            yield Scope(scope)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]

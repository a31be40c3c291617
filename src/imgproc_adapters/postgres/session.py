"""One connection inside one transaction: runs statements, and raises only the domain's errors."""

from collections.abc import Mapping, Sequence
from typing import Any, NewType, TypeVar

import psycopg
from psycopg import AsyncConnection

from imgproc_adapters.postgres.errors import translate
from imgproc_domain.errors import Conflict
from imgproc_domain.scope import Scope

Sql = NewType("Sql", bytes)
"""A statement made of literal parts only; values travel as parameters."""

Row = tuple[Any, ...]

_E = TypeVar("_E", bound=BaseException)


def statement(template: str, **parts: str) -> Sql:
    """Put shared literal parts (column lists, predicates of partial indexes) into a statement's text."""
    return Sql(template.format(**parts).encode())


class Session:
    """What a transaction's stores share. ``params`` always carries ``scope``."""

    def __init__(self, connection: AsyncConnection[Row], scope: Scope) -> None:
        self.scope = scope
        self._connection = connection
        self._failed: BaseException | None = None

    def check(self) -> None:
        """Raise the transaction's first error again: after one it is not committed, even if somebody swallowed it."""
        if self._failed is not None:
            raise self._failed

    def conflict(self, message: str) -> Conflict:
        """Return the error to raise, having made sure that nothing of the transaction is kept."""
        return self._fail(Conflict(message))

    async def rows(self, sql: Sql, **params: object) -> Sequence[Row]:
        return await (await self._execute(sql, params)).fetchall()

    async def run(self, sql: Sql, **params: object) -> int:
        """Return the number of rows that were written."""
        return (await self._execute(sql, params)).rowcount

    async def _execute(self, sql: Sql, params: Mapping[str, object]) -> psycopg.AsyncCursor[Row]:
        try:
            return await self._connection.execute(sql, {"scope": self.scope, **params}, binary=True)
        except psycopg.Error as error:
            known = self._fail(translate(error))
            if known is error:
                raise
            raise known from error

    def _fail(self, error: _E) -> _E:
        self._failed = self._failed or error
        return error

"""One connection inside one transaction: runs statements, and raises only the domain's errors."""

from collections.abc import Mapping, Sequence
from typing import Any, NewType, TypeVar

import psycopg
from attrs import define, field
from psycopg import AsyncConnection

from imgproc_adapters.postgres.errors import translate
from imgproc_domain.attempt import Attempt
from imgproc_domain.errors import Conflict
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, JobId, TaskId
from imgproc_domain.job import Job
from imgproc_domain.scope import Scope
from imgproc_domain.task import Task

Sql = NewType("Sql", bytes)
"""A statement made of literal parts only; values travel as parameters."""

Row = tuple[Any, ...]

_E = TypeVar("_E", bound=BaseException)


def statement(template: str, **parts: str) -> Sql:
    """Put shared literal parts (column lists, predicates of partial indexes) into a statement's text."""
    return Sql(template.format(**parts).encode())


@define
class Read:
    """Rows by their ids: values that their locks keep true until the transaction ends."""

    tasks: dict[TaskId, Task] = field(factory=dict)
    attempts: dict[AttemptId, Attempt] = field(factory=dict)
    grants: dict[GrantId, Grant] = field(factory=dict)
    jobs: dict[JobId, Job] = field(factory=dict)


class Session:
    """What a transaction's stores share. ``params`` always carries ``scope``.

    ``read`` holds tasks, attempts, grants and jobs as this transaction has read them last, so that it writes what it
    changes.
    """

    def __init__(self, connection: AsyncConnection[Row], scope: Scope) -> None:
        self.scope = scope
        self.read = Read()
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

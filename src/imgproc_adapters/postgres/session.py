"""One connection inside one transaction: runs statements, and raises only the domain's errors."""

from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import Any, NewType, TypeVar

import psycopg
from attrs import define, field
from psycopg import AsyncConnection

from imgproc_adapters.postgres.errors import translate
from imgproc_domain.attempt import Attempt
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId, GrantId, JobId, TaskId
from imgproc_domain.job import Job
from imgproc_domain.scope import Scope
from imgproc_domain.task import Task

Sql = NewType("Sql", bytes)
"""A statement made of literal parts only; values travel as parameters."""

Row = tuple[Any, ...]

Ask = tuple[Sql, Mapping[str, object]]
"""A statement with its values."""

_Cursors = Sequence[psycopg.AsyncCursor[Row]]

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


@define
class _Asked:
    """Statements that wait to be sent with those of others: what `Session.together` runs yields them to it."""

    asks: Sequence[Ask]

    def __await__(self) -> Generator["_Asked", _Cursors, _Cursors]:
        return (yield self)


class Session:
    """What a transaction's stores share. ``params`` always carries ``scope``.

    ``read`` holds tasks, attempts, grants and jobs as this transaction has read them last, so that it writes what it
    changes.
    """

    def __init__(self, connection: AsyncConnection[Row], scope: Scope, begin: Sql | None = None) -> None:
        """``begin`` travels with the first statement; without it the connection begins its transactions by itself."""
        self.scope = scope
        self.read = Read()
        self._connection = connection
        self._failed: BaseException | None = None
        self._begin = begin
        self._later: list[Ask] = []
        self._gathering = False

    def check(self) -> None:
        """Raise the transaction's first error again: after one it is not committed, even if somebody swallowed it."""
        if self._failed is not None:
            raise self._failed

    def conflict(self, message: str) -> Conflict:
        """Return the error to raise, having made sure that nothing of the transaction is kept."""
        return self._fail(Conflict(message))

    async def rows(self, sql: Sql, **params: object) -> Sequence[Row]:
        (cursor,) = await self._ask([(sql, params)])
        return await cursor.fetchall()

    async def rows_of(self, *asks: Ask) -> list[Sequence[Row]]:
        """As `rows`, of several statements in one round trip; they run in this order."""
        return [await cursor.fetchall() for cursor in await self._ask(asks)]

    async def rows_between(self, before: Sql, sql: Sql, after: Sql, **params: object) -> Sequence[Row]:
        """Run a statement between two others, all in one round trip, and return its rows.

        The others take no values: they change what holds for the rest of the transaction, and change it back.
        """
        _, rows, _ = await self._ask([(before, {}), (sql, params), (after, {})])
        return await rows.fetchall()

    async def run(self, sql: Sql, **params: object) -> int:
        """Return the number of rows that were written."""
        (cursor,) = await self._ask([(sql, params)])
        return cursor.rowcount

    async def run_all(self, asks: Sequence[Ask]) -> list[int]:
        """As `run`, of several statements in one round trip; they run in this order."""
        return [cursor.rowcount for cursor in await self._ask(asks)] if asks else []

    def later(self, ask: Ask) -> None:
        """Write with whatever is asked next, COMMIT at the latest: rows that are new, of which nobody asks how many.

        What is wrong with it is raised there.
        """
        self._later.append(ask)

    async def finish(self, commit: Sql, *asks: Ask) -> None:
        """Send what is left to write, then ``asks``, then COMMIT, in one round trip.

        Raises:
            psycopg.Error: of the first of them that the server refused, or of the connection.
        """
        left, self._later = [*self._later, *asks], []
        begin, self._begin = self._begin, None
        if begin is not None and not left:
            return
        if left:
            await self._pipelined(left, begin, commit)
        else:
            await self._connection.commit()

    async def together(self, *works: Coroutine[Any, Any, Any]) -> Any:
        """Run what waits for nothing but this session; what all of them ask next travels in one round trip.

        The statements that are asked at the same time run in the order of ``works``. Returns their results.
        """
        results: list[Any] = [None] * len(works)
        answers: dict[int, _Cursors | None] = dict.fromkeys(range(len(works)))
        outer = self._gathering
        try:
            while answers:
                self._gathering = True
                asked: dict[int, _Asked] = {}
                for place, answer in answers.items():
                    try:
                        asked[place] = works[place].send(answer)
                    except StopIteration as ended:
                        results[place] = ended.value
                self._gathering = outer
                cursors = await self._ask([ask for each in asked.values() for ask in each.asks]) if asked else ()
                begin, answers = 0, {}
                for place, each in asked.items():
                    answers[place] = cursors[begin : begin + len(each.asks)]
                    begin += len(each.asks)
        finally:
            for work in works:
                work.close()
            # behind that: what one of them gathers itself says so again as it is closed
            self._gathering = outer
        return results

    async def _ask(self, asks: Sequence[Ask]) -> _Cursors:
        return await _Asked(asks) if self._gathering else await self._execute(asks)

    async def _execute(self, asks: Sequence[Ask]) -> _Cursors:
        begin, self._begin = self._begin, None
        later, self._later = self._later, []
        try:
            if begin is None and not later and len(asks) == 1:
                return [await self._send(*asks[0])]
            return (await self._pipelined([*later, *asks], begin))[len(later) :]
        except psycopg.Error as error:
            known = self._fail(translate(error))
            if known is error:
                raise
            raise known from error
        except BaseException:
            # a server that was told to give up answers COMMIT with a ROLLBACK, which is no error
            self._fail(DatabaseUnavailable("a statement was interrupted"))
            raise

    async def _pipelined(
        self, asks: Sequence[Ask], begin: Sql | None = None, commit: Sql | None = None
    ) -> list[psycopg.AsyncCursor[Row]]:
        """Send statements in one round trip; ``begin`` and ``commit`` go before and behind them.

        Raises:
            psycopg.Error: what the server said to the first statement that it refused.
        """
        first: psycopg.Error | None = None
        cursors: list[psycopg.AsyncCursor[Row]] = []
        try:
            async with self._connection.pipeline():
                try:
                    if begin is not None:
                        await self._connection.execute(begin, prepare=False)
                    cursors.extend([await self._send(*ask) for ask in asks])
                    if commit is not None:
                        # not the connection's `commit`, which waits for an answer of its own
                        await self._connection.execute(commit, prepare=False)
                except psycopg.Error as error:
                    # the pipeline's end only says that the others were skipped
                    first = error
        except psycopg.Error as error:
            raise first or error from None
        if first is not None:
            raise first
        return cursors

    async def _send(self, sql: Sql, params: Mapping[str, object]) -> psycopg.AsyncCursor[Row]:
        return await self._connection.execute(sql, {"scope": self.scope, **params}, binary=True)

    def _fail(self, error: _E) -> _E:
        self._failed = self._failed or error
        return error

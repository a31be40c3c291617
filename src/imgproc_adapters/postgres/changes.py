"""Write rows back by what changed in them.

Most rows of a batch change in the same way: their tasks succeed at the same moment, their leases end. Each such way is
one statement over an array of ids, which the primary key answers, whatever the planner believes about the table. A join
to arrays of new values would be planned for a handful of rows, and compare every row with every value; it is left for
batches in which every row changes in its own way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Final, Generic, TypeVar

from attrs import field, frozen

from imgproc_adapters.postgres.arrays import Uuids
from imgproc_adapters.postgres.session import Session, Sql, statement
from imgproc_domain.diagnosis import Diagnosis

K = TypeVar("K")
R = TypeVar("R")

Columns = Mapping[str, str]
"""The columns of a table that change, and the attribute that each is read from; an error gives two columns."""

ERROR: Final = "error"

_MOST: Final = 4
_NOTHING: Final = object()


@frozen
class Change(Generic[R]):
    """Rows that get the same values in the same columns."""

    values: Mapping[str, object]
    rows: list[R] = field(factory=list)


def _values(columns: Columns, before: Iterable[object], after: Iterable[object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, was, now in zip(columns, before, after, strict=True):
        if was is now or was == now:
            continue
        if name == ERROR:
            values["error_code"] = now.code if isinstance(now, Diagnosis) else None
            values["error_message"] = now.message if isinstance(now, Diagnosis) else None
        else:
            values[name] = now
    return values


def alike(
    columns: Columns, pairs: Iterable[tuple[R | None, R]], *same: Callable[[R], object]
) -> Sequence[Change[R]] | None:
    """Group rows, given as they were read and as they are to be, by what changes; rows of a group agree in ``same``.

    All columns change of a row that was not read, and a row that does not change is in no group. None if the groups
    are too many to be worth it.
    """
    read, unread = attrgetter(*columns.values()), (_NOTHING,) * len(columns)
    found: dict[tuple[object, ...], Change[R]] = {}
    for before, after in pairs:
        values = _values(columns, unread if before is None else read(before), read(after))
        if not values:
            continue
        key = (*values.items(), *(of(after) for of in same))
        change = found.get(key)
        if change is None:
            if len(found) == _MOST:
                return None
            change = found[key] = Change(values)
        change.rows.append(after)
    return list(found.values())


@cache
def update(table: str, columns: tuple[str, ...], where: str, returning: str = "") -> Sql:
    """Return the statement that sets ``columns`` of the rows that ``where`` finds; values travel under their names."""
    return statement(
        "UPDATE {table} SET {settings} WHERE scope_id = %(scope)s AND {where} {returning}",
        table=table,
        settings=", ".join(f"{column} = %({column})s" for column in columns),
        where=where,
        returning=returning,
    )


@frozen
class Table(Generic[R]):
    """How the rows of one table are written back: ``what`` they are, by which ``key``, and all at once where they must.

    ``joined`` writes rows that each change in their own way, given as the arrays that ``arrays`` makes of them.
    """

    what: str
    name: str
    key: str
    columns: Columns
    joined: Sql
    arrays: Callable[[Sequence[R]], dict[str, object]]


async def save(session: Session, table: Table[R], known: dict[K, R], rows: Sequence[R]) -> None:
    """Write rows back that this transaction has locked; raises `Conflict` if one is gone."""
    if not rows:
        return
    key_of = attrgetter(table.key)
    groups = alike(table.columns, ((known.get(key_of(row)), row) for row in rows))
    if groups is None:
        wanted, written = len(rows), await session.run(table.joined, **table.arrays(rows))
    else:
        wanted, where = sum(len(change.rows) for change in groups), f"{table.key} = ANY (%(ids)s)"
        asks = [
            (update(table.name, tuple(change.values), where), {"ids": Uuids(map(key_of, change.rows)), **change.values})
            for change in groups
        ]
        written = sum(await session.run_all(asks))
    if written != wanted:
        raise session.conflict(f"a {table.what} to be written is gone")
    known.update((key_of(row), row) for row in rows)

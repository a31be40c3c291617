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

from imgproc_adapters.postgres.session import Sql, statement
from imgproc_domain.diagnosis import Diagnosis

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


@cache
def _reader(attributes: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    return attrgetter(*attributes)


def _values(columns: Columns, before: object | None, after: object) -> dict[str, object]:
    read = _reader(tuple(columns.values()))
    old = read(before) if before is not None else (_NOTHING,) * len(columns)
    values: dict[str, object] = {}
    for name, was, now in zip(columns, old, read(after), strict=True):
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
    found: dict[tuple[object, ...], Change[R]] = {}
    for before, after in pairs:
        values = _values(columns, before, after)
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

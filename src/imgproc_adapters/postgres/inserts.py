"""Insert many rows of one table by one statement, in which only what differs from row to row travels once a row.

Rows that are made together are much alike: of the columns of 500 new tasks three or four differ. A column that has one
value in all rows travels as that value, one that is NULL in all of them not at all, and every other one as an array.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from imgproc_adapters.postgres.session import Ask, Sql, statement


def insert(table: str, key: str, columns: Mapping[str, Any]) -> Ask:
    """Return the statement that inserts rows, given by column, and its values.

    ``columns`` holds arrays of equal length, in the order of the rows. Those of the column ``key``, which may be called
    "ids", always travel as one.
    """
    differing: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for name, values in columns.items():
        first = values[0]
        # most columns that differ do so between their ends, and comparing all of their values takes long
        if name in ("ids", key) or first != values[-1] or values.count(first) != len(values):
            differing[name] = values
        elif first is not None:
            shared[name] = first
    return insertion(table, key, tuple(differing), tuple(shared)), differing | shared


@cache
def insertion(table: str, key: str, differing: tuple[str, ...], shared: tuple[str, ...]) -> Sql:
    """Return the statement that inserts rows of the columns that differ and those that they share, and no other."""
    names = (*differing, *shared)
    return statement(
        "INSERT INTO {table} (scope_id, {names}) SELECT %(scope)s, n.* {shared} FROM unnest({arrays}) AS n",
        table=table,
        names=", ".join(key if name == "ids" else name for name in names),
        shared="".join(f", %({name})s" for name in shared),
        arrays=", ".join(f"%({name})s" for name in differing),
    )

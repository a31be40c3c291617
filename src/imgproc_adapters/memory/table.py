"""What a table is: how its rows are keyed, what is unique among them, and what must be true of each."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from attrs import Factory, frozen

from imgproc_domain.scope import Scope

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SHARED: Final = Scope("")
"""The partition of rows that belong to no scope; no real scope is empty."""

Reference = tuple[str, Hashable]


def _nothing(_old: Any, _new: Any) -> None: ...


def _no_references(_row: Any) -> Iterable[Reference]:
    return ()


@frozen(eq=False)
class Table(Generic[K, V]):
    """One table, partitioned by scope. Keys and unique values leave the scope out: the partition is the scope.

    A unique value of None takes no part in its index (a partial index). ``check`` sees the stored row (None for a new
    one) and the one about to replace it, and asserts what SQL CHECKs and the state machines demand. ``references``
    names the rows, by table and key, that must exist in the same scope when the transaction commits.
    """

    name: str
    key: Callable[[V], K]
    unique: Mapping[str, Callable[[V], Hashable | None]] = Factory(dict)
    check: Callable[[V | None, V], None] = _nothing
    references: Callable[[V], Iterable[Reference]] = _no_references
    shared: bool = False

    def partition(self, scope: Scope) -> Scope:
        return SHARED if self.shared else scope

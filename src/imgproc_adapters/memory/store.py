"""The committed state, shared by everything that works on one store."""

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, cast

from attrs import define, evolve

from imgproc_adapters.memory.locks import LOCK_TIMEOUT, RowLocks
from imgproc_adapters.memory.schema import TASKS
from imgproc_adapters.memory.table import K, Table, V
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope
from imgproc_domain.task import Task

Writes = Mapping[Table[Any, Any], Mapping[Any, Any]]
"""What one transaction changes, by table and key; None is a deleted row."""


@define(eq=False)
class _Part:
    """The rows of one table and scope, with their unique indexes."""

    rows: dict[Any, Any]
    indexes: dict[str, dict[Hashable, Any]]


class MemoryStore:
    """Committed rows by table and scope. Rows are immutable values, so a reader never sees half a change."""

    def __init__(self, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.locks = RowLocks(lock_timeout)
        self.scopes: set[Scope] = set()
        self.mutex = threading.Lock()
        self.ears: list[Callable[[Collection[Topic]], None]] = []
        self._parts: dict[tuple[str, Scope], _Part] = {}

    def rows(self, table: Table[K, V], scope: Scope) -> Mapping[K, V]:
        """Return the committed rows of a table in a scope (for shared tables: all of them)."""
        part = self._parts.get((table.name, table.partition(scope)))
        return cast("Mapping[K, V]", part.rows) if part else {}

    def everything(self, table: Table[K, V]) -> list[V]:
        """Return the committed rows of a table over all scopes."""
        parts = [part for (name, _), part in sorted(self._parts.items()) if name == table.name]
        return [row for part in parts for row in part.rows.values()]

    def owner_of(self, table: Table[K, V], scope: Scope, index: str, value: Hashable) -> K | None:
        """Return the key of the committed row that has a unique value."""
        part = self._parts.get((table.name, table.partition(scope)))
        return cast("K | None", part.indexes[index].get(value)) if part else None

    def apply(self, scope: Scope, writes: Writes) -> None:
        """Make a transaction's changes visible, all at once."""
        with self.mutex:
            for table, changes in writes.items():
                self._apply(table, self._part(table, scope), changes)

    def renew(self, task: Task) -> None:
        """Write the extended lease of a task that is current; the caller holds the mutex."""
        self._part(TASKS, task.scope).rows[task.task_id] = task

    def _part(self, table: Table[Any, Any], scope: Scope) -> _Part:
        empty = _Part({}, {name: {} for name in table.unique})
        return self._parts.setdefault((table.name, table.partition(scope)), empty)

    def _apply(self, table: Table[Any, Any], part: _Part, changes: Mapping[Any, Any]) -> None:
        for key in changes:
            if key in part.rows:
                for name, unique in table.unique.items():
                    part.indexes[name].pop(unique(part.rows[key]), None)
        for key, row in changes.items():
            if row is None:
                part.rows.pop(key, None)
                continue
            part.rows[key] = _keep_renewal(part.rows.get(key), row)
            for name, unique in table.unique.items():
                value = unique(row)
                if value is not None:
                    part.indexes[name][value] = key


def _keep_renewal(old: object, new: object) -> object:
    """A renewal that came while a transaction held the task is as if it had come just after the commit."""
    if not isinstance(old, Task) or not isinstance(new, Task):
        return new
    same_claim = (old.lease.owner, old.lease.generation) == (new.lease.owner, new.lease.generation)
    return evolve(new, lease=old.lease) if same_claim else new

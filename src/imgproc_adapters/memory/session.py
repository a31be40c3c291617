"""One transaction's view: its own changes over what is committed, and the locks it holds."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

from imgproc_adapters.memory import schema
from imgproc_adapters.memory.clock import Clock
from imgproc_adapters.memory.locks import Name
from imgproc_adapters.memory.store import MemoryStore
from imgproc_adapters.memory.table import K, Table, V
from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.ports.wakeups import Topic
from imgproc_domain.scope import Scope

_TABLES: Final[Mapping[str, Table[Any, Any]]] = {
    table.name: table for table in vars(schema).values() if isinstance(table, Table)
}


class Session:
    """READ COMMITTED: every statement sees this transaction's changes and whatever is committed at that moment.

    One that is frozen sees what was committed then, and writes nothing.
    """

    def __init__(self, store: MemoryStore, clock: Clock, scope: Scope) -> None:
        self.scope = scope
        self._store = store
        self._clock = clock
        self._writes: dict[Table[Any, Any], dict[Any, Any]] = {}
        self._frozen: Mapping[str, Mapping[Any, Any]] | None = None
        self._topics: set[Topic] = set()
        self._broken: str | None = None
        self._closed = False

    def now(self) -> datetime:
        self._assert_open()
        return self._clock.now()

    def get(self, table: Table[K, V], key: K) -> V | None:
        self._assert_open()
        mine = self._mine(table)
        return mine[key] if key in mine else self._committed(table).get(key)

    def pick(self, table: Table[K, V], keys: Iterable[K]) -> dict[K, V]:
        """Return the rows of these keys; those that do not exist are missing."""
        found = ((key, self.get(table, key)) for key in keys)
        return {key: row for key, row in found if row is not None}

    def rows(self, table: Table[K, V]) -> list[V]:
        """Return every row of the scope."""
        self._assert_open()
        merged: dict[K, V | None] = dict(self._committed(table).items())
        mine = self._mine(table)
        merged.update(mine)
        return [row for row in merged.values() if row is not None]

    def freeze(self) -> None:
        """See all rows as they are now until the transaction ends."""
        assert not self._writes, "what is seen is decided before anything else"
        self._frozen = {name: dict(self._store.rows(table, self.scope)) for name, table in _TABLES.items()}

    def try_lock(self, table: Table[K, V], row: V) -> bool:
        """Lock a row unless another transaction has it (SKIP LOCKED)."""
        return self._store.locks.try_acquire(self, self._name(table, table.key(row)))

    async def lock(self, table: Table[K, V], keys: Iterable[K]) -> dict[K, V]:
        """Lock rows in the order given, waiting for other holders, and return them as they are then."""
        locked: dict[K, V] = {}
        for key in keys:
            if self.get(table, key) is None:
                continue
            await self._acquire(self._name(table, key))
            row = self.get(table, key)
            if row is not None:
                locked[key] = row
        return locked

    async def insert(self, table: Table[K, V], row: V) -> None:
        """Add a new row; raises `Conflict` if its key or one of its unique values is taken."""
        if not await self.insert_absent(table, row):
            raise self.conflict(f"{table.name} already has a row of this key")

    async def insert_absent(self, table: Table[K, V], row: V) -> bool:
        """Add a new row unless its key is taken (ON CONFLICT DO NOTHING on the key)."""
        key = table.key(row)
        await self._acquire(self._name(table, key))
        if self.get(table, key) is not None:
            return False
        await self._write(table, None, row)
        return True

    async def update(self, table: Table[K, V], row: V) -> None:
        """Replace a row that this transaction has locked; raises `Conflict` if it is gone."""
        key = table.key(row)
        old = self.get(table, key)
        if old is None:
            raise self.conflict(f"{table.name} has no such row any more")
        assert self._store.locks.holds(self, self._name(table, key)), f"{table.name}: only locked rows are written"
        await self._write(table, old, row)

    async def upsert(self, table: Table[K, V], row: V) -> None:
        """Insert a row, or replace the one of its key."""
        await self._acquire(self._name(table, table.key(row)))
        await self._write(table, self.get(table, table.key(row)), row)

    async def delete(self, table: Table[K, V], key: K) -> None:
        await self._acquire(self._name(table, key))
        self._mine(table)[key] = None

    def ring(self, topics: Collection[Topic]) -> None:
        self._assert_open()
        self._topics.update(topics)

    def conflict(self, message: str) -> Conflict:
        """End the transaction, as a database does once a statement has failed, and return the error to raise."""
        self._broken = message
        return Conflict(message)

    def commit(self) -> None:
        self._assert_open()
        self._assert_references()
        self._closed = True
        self._store.apply(self.scope, self._writes)
        if self._topics:
            for ear in tuple(self._store.ears):
                ear(frozenset(self._topics))

    def close(self) -> None:
        """Forget what was not committed and let go of every lock."""
        self._closed = True
        self._store.locks.release(self)

    async def _write(self, table: Table[K, V], old: V | None, new: V) -> None:
        for index, unique in table.unique.items():
            value = unique(new)
            if value is not None and (old is None or unique(old) != value):
                await self._claim_unique(table, index, value, table.key(new))
        table.check(old, new)
        self._mine(table)[table.key(new)] = new

    async def _claim_unique(self, table: Table[K, V], index: str, value: Hashable, key: K) -> None:
        """As an index does: wait for whoever may be giving or taking the value, then refuse it if it is taken."""
        await self._acquire((f"{table.name}: {index}", table.partition(self.scope), value))
        other = self._unique_owner(table, index, value)
        if other is not None and other != key:
            await self._settle(self._name(table, other))
            other = self._unique_owner(table, index, value)
        if other is not None and other != key:
            raise self.conflict(f"{table.name} already has this {index}")

    def _unique_owner(self, table: Table[K, V], index: str, value: Hashable) -> K | None:
        mine = self._mine(table)
        for key, row in mine.items():
            if row is not None and table.unique[index](row) == value:
                return key
        committed = self._store.owner_of(table, self.scope, index, value)
        return None if committed in mine else committed

    def _assert_references(self) -> None:
        for table, changes in tuple(self._writes.items()):
            for row in changes.values():
                for name, key in () if row is None else table.references(row):
                    assert self.get(_TABLES[name], key) is not None, f"{table.name}: no {name} row {key} in this scope"

    async def _acquire(self, name: Name) -> None:
        self._assert_open()
        assert self._frozen is None, "what sees one moment writes nothing"
        try:
            await self._store.locks.acquire(self, name)
        except (Conflict, DatabaseUnavailable) as ended:
            self._broken = ended.message
            raise

    async def _settle(self, name: Name) -> None:
        try:
            await self._store.locks.settle(self, name)
        except (Conflict, DatabaseUnavailable) as ended:
            self._broken = ended.message
            raise

    def _assert_open(self) -> None:
        assert not self._closed, "the transaction has ended"
        if self._broken is not None:
            raise Conflict(f"the transaction has failed already: {self._broken}")

    def _committed(self, table: Table[K, V]) -> Mapping[K, V]:
        frozen = self._frozen
        return self._store.rows(table, self.scope) if frozen is None else frozen[table.name]

    def _mine(self, table: Table[K, V]) -> dict[K, V | None]:
        return cast("dict[K, V | None]", self._writes.setdefault(table, {}))

    def _name(self, table: Table[K, V], key: K) -> Name:
        return (table.name, table.partition(self.scope), key)

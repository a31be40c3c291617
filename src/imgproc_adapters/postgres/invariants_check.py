"""What a check of the stored rows is: one SELECT that finds nothing as long as its sentence is true.

A statement names tables as ``{tasks}``: that stands for the rows of the one scope that is being looked at, so that no
statement can leave a scope. ``{now}`` is the moment of the snapshot; what was due before ``{stale}`` has waited too
long. Every statement returns two texts, the offending row and what is wrong with it.
"""

from collections.abc import Iterator
from string import Formatter
from typing import Final

from attrs import field, frozen

from imgproc_adapters.postgres.tables import METADATA

SCOPED: Final = frozenset(name for name, table in METADATA.tables.items() if "scope_id" in table.c)
"""Tables whose rows name a scope; the slots of a lane do while they are held."""

_ROWS: Final = {name: f"(SELECT * FROM {name} WHERE scope_id = %(scope)s)" for name in SCOPED}  # noqa: S608 - our own names

_SHARED: Final = {
    # what may be found (I14)
    "eligible": """(
        SELECT m.meme_id, m.image_sha256, c.metadata_hash
        FROM {memes} m JOIN {meme_contexts} c ON c.meme_id = m.meme_id
        WHERE m.deleted_at IS NULL AND c.status IN ('partial', 'ready') AND c.metadata_hash IS NOT NULL
    )""",
    # contexts that an agent's attempt made, as they say of themselves
    "agent_contexts": """(
        SELECT meme_id, provenance ->> 'attempt_id' AS attempt_id, provenance ->> 'image_sha256' AS image_sha256,
            provenance ->> 'reverse_image_policy' AS policy
        FROM {meme_contexts} each WHERE provenance ->> 'attempt_id' IS NOT NULL
    )""",
    # of a task t
    "is_unknown": "(t.status = 'failed' AND coalesce(t.error_code, '') = 'unknown_execution')",
    "now": "%(now)s::timestamptz",
    "stale": "(%(now)s::timestamptz - %(patience)s::interval)",
}
_PARTS: Final = {**_ROWS, **{name: part.format_map(_ROWS) for name, part in _SHARED.items()}}


def _tables(template: str) -> Iterator[str]:
    for _, name, _, _ in Formatter().parse(template):
        if name in SCOPED:
            yield name
        elif name is not None:
            yield from _tables(_SHARED[name])


@frozen
class Check:
    """One promise, as ``sentence`` puts it, and the ``sql`` template that finds the rows of a scope that break it.

    ``invariant`` is its number in the domain, or ``progress`` for what nobody would ever work on again, or ``rest``
    for what must not be left over. A ``quiescent`` check holds only while nothing runs. A ``warning`` breaks no
    invariant: somebody is late, or has to know. One that is not ``scoped`` looks at the whole database in one
    statement; one ``of_head`` looks at what is so in this version's schema alone.
    """

    invariant: str
    name: str
    sentence: str
    sql: str = field(repr=False)
    quiescent: bool = False
    warning: bool = False
    scoped: bool = True
    of_head: bool = False

    @property
    def tables(self) -> frozenset[str]:
        """The tables that hold the rows of a scope and are read; an older schema may not have all of them."""
        return frozenset(_tables(self.sql))

    @property
    def statement(self) -> str:
        """The SELECT with ``%(scope)s``, ``%(now)s`` and ``%(patience)s`` as its parameters."""
        return self.sql.format_map(_PARTS)

"""Everything stored, at one moment, for the invariants to look at."""

from collections.abc import Collection, Sequence
from datetime import datetime

from attrs import frozen

from imgproc_adapters.memory import schema
from imgproc_adapters.memory.store import MemoryStore
from imgproc_domain.attempt import Attempt
from imgproc_domain.context import Context
from imgproc_domain.grant import Grant
from imgproc_domain.ids import AttemptId
from imgproc_domain.job import Job
from imgproc_domain.lane import Slot
from imgproc_domain.meme import Meme
from imgproc_domain.product import TextProduct, VisualProduct
from imgproc_domain.scope import Scope
from imgproc_domain.task import Task


@frozen
class View:
    """The rows of one scope, and every lane slot. ``findable`` and ``text`` are the searchable and all text vectors.

    ``attested`` are the attempts of which an operator attested that their call is over.
    """

    scope: Scope
    now: datetime
    memes: Sequence[Meme] = ()
    contexts: Sequence[Context] = ()
    jobs: Sequence[Job] = ()
    tasks: Sequence[Task] = ()
    attempts: Sequence[Attempt] = ()
    grants: Sequence[Grant] = ()
    slots: Sequence[Slot] = ()
    visual: Sequence[VisualProduct] = ()
    text: Sequence[TextProduct] = ()
    findable: Sequence[TextProduct] = ()
    attested: Collection[AttemptId] = ()


def memory_view(store: MemoryStore, scope: Scope, now: datetime) -> View:
    """Return what is committed in a memory store."""
    return View(
        scope=scope,
        now=now,
        memes=list(store.rows(schema.MEMES, scope).values()),
        contexts=list(store.rows(schema.CONTEXTS, scope).values()),
        jobs=list(store.rows(schema.JOBS, scope).values()),
        tasks=list(store.rows(schema.TASKS, scope).values()),
        attempts=list(store.rows(schema.ATTEMPTS, scope).values()),
        grants=list(store.rows(schema.GRANTS, scope).values()),
        slots=list(store.rows(schema.SLOTS, scope).values()),
        visual=list(store.rows(schema.VISUAL, scope).values()),
        text=list(store.rows(schema.TEXT, scope).values()),
        findable=[row.product for row in store.rows(schema.FINDABLE, scope).values()],
        attested=[r.attempt_id for r in store.rows(schema.RESOLUTIONS, scope).values() if r.resolution.attested],
    )

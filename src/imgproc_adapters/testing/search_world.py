"""What the search machine works with: exact text models, unfit vectors, and one process that is driven step by step."""

from array import array
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import timedelta
from typing import Final

from attrs import Factory, define, evolve, frozen

from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.factories import digest
from imgproc_adapters.testing.models import Embedded, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.pipeline import OWNER, content_of, settling
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.search_oracle import Library, exact_vector
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import MemeId
from imgproc_domain.lane import LaneLimits
from imgproc_domain.outcome import Outcome
from imgproc_domain.ports.models import Declined
from imgproc_domain.retry import RetryPolicy
from imgproc_domain.scope import Scope
from imgproc_domain.settlement import Fenced, Settled, Settling
from imgproc_domain.stage import MAINTENANCE_TASK_TYPES, Lane, ReverseImagePolicy, TaskType
from imgproc_domain.usecases.backfill import Embedded as Window
from imgproc_domain.usecases.backfill import Embedding, embed
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.deployment import Deployment, Limits
from imgproc_domain.usecases.ingest import Uploaded, upload
from imgproc_domain.usecases.maintenance import build_generation, request_generation
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.prune import Pruning, prune
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start
from imgproc_domain.vector import Vector

ONE: Final = VectorSpace("exact-text-1", 4)
TWO: Final = VectorSpace("exact-text-2", 8)
SPACES: Final = (ONE, TWO)
SLOTS: Final = 2
PICTURES: Final = ("cat", "dog", "owl", "fox")
NAMES: Final = ("a.png", "cat 50%_off.png", "猫.jpg")
DESCRIPTIONS: Final = (
    Description(title="a cat at a meeting"),
    Description(title="一只猫在开会", visible_text="cat"),
    # the same text is embedded as for the first, but none of its words is in a field that is searched by words
    Description(summary="a cat at a meeting"),
    # what is not embedded is no change at all
    Description(title="a cat at a meeting", search_queries=["meetings"]),
    Description(title="owl", keywords=["cat", "猫"]),
    Description(),
)
QUERIES: Final = ("a cat at a meeting", "猫 开会", "cat", "at a", "50%_off", "!?", "猫在开会 owl")

UNFIT: Final[Mapping[str, Embedded]] = {
    "declined": Declined(Diagnosis(ErrorCode.EMBEDDING_FAILED, "no"), transient=False),
    "too short": Vector.unit([1.0]),
    "too long": Vector.unit([1.0] * 9),
    "zero": Vector(array("f", [0.0] * 4).tobytes()),
    "not a number": Vector(array("f", [float("nan")] * 4).tobytes()),
    "endless": Vector(array("f", [float("inf")] * 4).tobytes()),
    "of another length": Vector(array("f", [3.0] * 4).tobytes()),
}

_HOUR: Final = timedelta(hours=1)
_NOW: Final = timedelta(0)
_MONTH: Final = timedelta(days=30)


@frozen
class SearchSite:
    """Adapters over an empty database, and two scopes that nobody else uses.

    ``age`` lets a time pass for every row. ``forget_words`` makes a meme's findable vectors look like those that were
    written before words were. ``check`` raises `AssertionError` if what is stored breaks an invariant.
    """

    world: World
    scope: Scope
    beside: Scope
    age: Callable[[timedelta], Coroutine[None, None, None]]
    forget_words: Callable[[MemeId], Coroutine[None, None, None]]
    check: Callable[[], Coroutine[None, None, None]]
    close: Callable[[], Coroutine[None, None, None]]


@define
class Shelf:
    """Removes bytes however lately they were kept: here time passes in leaps."""

    blobs: NameBlobs
    library: Library

    async def remove_unless_kept_since(self, scope: Scope, storage_key: str, since: object) -> bool:  # noqa: ARG002 - the port's signature
        await self.blobs.remove(scope, storage_key)
        self.library.lost.update(content for content in PICTURES if digest(content).hex == storage_key)
        return True


def exact_model(space: VectorSpace) -> ScriptedTextModel:
    model = ScriptedTextModel(space=space)
    model.script.always(lambda text: exact_vector(text, space.dimension))
    return model


@define(eq=False)
class Process:
    """One process over a site with both text models; `alone` is another one, which knows only the first."""

    site: SearchSite
    one: ScriptedTextModel = Factory(lambda: exact_model(ONE))
    two: ScriptedTextModel = Factory(lambda: exact_model(TWO))
    agent: ScriptedAgent = Factory(ScriptedAgent)
    blobs: NameBlobs = Factory(NameBlobs)
    both: Deployment = Factory(lambda self: self.deployment(), takes_self=True)

    def deployment(self) -> Deployment:
        # leases outlast whatever a slow machine does between two steps
        lanes = LaneLimits({Lane.VISUAL: 8, Lane.AGENT: SLOTS, Lane.TEXT: 8, Lane.MAINTENANCE: 1})
        return Deployment(
            uow=self.site.world.uow,
            blobs=self.blobs,
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(),
            agent=self.agent,
            text=self.one,
            policy=RememberingPolicy(),
            ids=SystemIds(),
            observer=RecordingObserver(),
            limits=Limits(_HOUR, _HOUR, look_again=_NOW, lanes=lanes, retry=RetryPolicy(3, 4, _NOW, _NOW)),
            more_text=(self.two,),
        )

    @property
    def alone(self) -> Deployment:
        return evolve(self.both, more_text=())

    @contextmanager
    def answering(self, space: VectorSpace, answer: str, only: str | None = None) -> Iterator[None]:
        """Let a text model answer so, to every text or to ``only`` one; "good" is as ever."""
        model = self.one if space == ONE else self.two
        if answer in UNFIT:
            model.script.always(
                lambda text: UNFIT[answer] if only in (None, text) else exact_vector(text, space.dimension)
            )
        try:
            yield
        finally:
            model.script.always(lambda text: exact_vector(text, space.dimension))

    async def lose_file(self, content: str) -> None:
        await self.blobs.remove(self.site.scope, digest(content).hex)

    async def make_slots(self) -> None:
        async with self.site.world.uow.begin(self.site.scope) as tx:
            await tx.slots.resize(Lane.AGENT, SLOTS)

    async def upload(self, scope: Scope, content: str, name: str) -> Uploaded:
        return await upload(self.both, scope, name, content_of(content), ReverseImagePolicy.FORBID)

    async def describe(self, scope: Scope) -> list[Settled]:
        """Bring every picture of a scope to where its text is to be embedded."""
        settled: list[Settled] = []
        for kind in (TaskType.VISUAL, TaskType.CONTEXT):
            await self.reconcile(scope)
            # more pictures than slots take turns
            while claimed := await claim_tasks(self.both, scope, kind, SLOTS, OWNER):
                settled += [e for e in await self.finish(scope, claimed) if isinstance(e, Settled)]
        await self.reconcile(scope)
        return settled

    async def reconcile(self, scope: Scope) -> None:
        await reconcile_due(self.both, self.site.world.dispatch, scope, OWNER, 50)

    async def finish(
        self, scope: Scope, claimed: Sequence[Execution], worker: Deployment | None = None
    ) -> Sequence[Settled | Fenced]:
        performed = await self.performed(scope, claimed, worker or self.both)
        return await settle(self.both, scope, [settling(execution, outcome) for execution, outcome in performed])

    async def performed(
        self, scope: Scope, claimed: Sequence[Execution], worker: Deployment
    ) -> list[tuple[Execution, Outcome]]:
        """Start calls and let them come to their ends, of which nobody has heard yet."""
        ready = await start(worker, scope, claimed)
        made = [(execution, await perform(worker, execution)) for execution in ready.running]
        return made + [(execution, execution.outcome) for execution in ready.decided if execution.outcome is not None]

    async def embed_texts(self, scope: Scope) -> None:
        while claimed := await claim_tasks(self.both, scope, TaskType.TEXT, SLOTS, OWNER):
            await self.finish(scope, claimed)

    async def embed_window(self, space: VectorSpace | None, window: int, after: MemeId | None) -> Window:
        """Run a backfill, and end it after its first window."""
        wanted = Embedding(space=space, window=window, batch=2, after=after)
        async with aclosing(embed(self.both, self.site.scope, wanted)) as pages:
            return await anext(pages)

    async def build_generation(self) -> None:
        scope = self.site.scope
        await request_generation(self.both, scope)
        (kind,) = MAINTENANCE_TASK_TYPES
        (execution,) = await claim_tasks(self.both, scope, kind, 1, OWNER)
        outcome = await build_generation(self.both, execution)
        await settle(self.both, scope, [Settling(execution.claim, None, outcome)])

    async def prune(self, deployment: Deployment, library: Library) -> None:
        wanted = Pruning(older_than=_MONTH, batch=3, vectors=True)
        async for _ in prune(deployment, Shelf(self.blobs, library), self.site.scope, wanted):
            pass

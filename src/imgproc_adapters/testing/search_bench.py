"""What the search machine stands on: two scopes, what is known of them, and what is asked after every step."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from attrs import define, evolve
from hypothesis.stateful import RuleBasedStateMachine, invariant

from imgproc_adapters.testing.pipeline import OWNER
from imgproc_adapters.testing.search_oracle import Library, Shown
from imgproc_adapters.testing.search_world import (
    DESCRIPTIONS,
    NAMES,
    ONE,
    PICTURES,
    QUERIES,
    SPACES,
    TWO,
    Process,
    SearchSite,
)
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.errors import (
    CacheNotReady,
    ImgprocError,
    JobNotRetryable,
    ModelNotConfigured,
    SearchIncomplete,
)
from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchState
from imgproc_domain.outcome import Outcome, Succeeded
from imgproc_domain.ports.models import AgentAnswer
from imgproc_domain.product import TextProduct
from imgproc_domain.scope import Scope
from imgproc_domain.search import Answer, Query, Ranking
from imgproc_domain.settlement import Fenced, Settled
from imgproc_domain.stage import IMAGE_TASK_TYPES, TaskType
from imgproc_domain.usecases import migrate_search
from imgproc_domain.usecases.claim import Execution, claim_tasks
from imgproc_domain.usecases.edit import edit_context
from imgproc_domain.usecases.recover import expire_leases
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_images

T = TypeVar("T")


@define(eq=False)
class Hand:
    """A text that was embedded by somebody, and is not written back yet: which version of which meme it is of."""

    execution: Execution
    outcome: Outcome
    version: tuple[str, str]
    lost: bool = False

    @property
    def meme_id(self) -> MemeId:
        assert self.execution.meme is not None, "a text's task has its meme"
        return self.execution.meme.meme_id


class SearchBench(RuleBasedStateMachine):
    """Compares every search with what `library` says it must find, and `neighbour` of the scope beside."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.site = self.runner.run(self.open_site())
        self.process = Process(self.site)
        self.library, self.neighbour = Library(ONE), Library(ONE)
        self.hands: list[Hand] = []
        self.cursors: dict[VectorSpace, MemeId | None] = {}
        self.asked = 0
        self.runner.run(self._settle_neighbour())

    @abstractmethod
    async def open_site(self) -> SearchSite:
        """Open the adapters under test, on the event loop that the machine runs on."""

    def run(self, work: Awaitable[T]) -> T:
        async def inner() -> T:
            return await work

        return self.runner.run(inner())

    @invariant()
    def everything_is_as_it_must_be(self) -> None:
        self.searches_find_what_they_must()
        self.people_are_told_what_can_be_found()
        self.the_state_is_as_it_was_left()
        self.a_process_without_the_model_says_so()

    def searches_find_what_they_must(self) -> None:
        self.asked += 1
        text = QUERIES[self.asked % len(QUERIES)]
        least = (None, 0.5, None, -0.25)[self.asked % 4]
        for ranking in Ranking:
            self._expect(self.library, self.site.scope, Query(text, 100, least, ranking))
            self._expect_pages(Query(text, 1 + self.asked % 3, least, ranking))
        self._expect(self.neighbour, self.site.beside, Query(text, 100))

    def people_are_told_what_can_be_found(self) -> None:
        found = self.library.findable(self.library.serves)
        views = self.run(get_images(self.process.both, self.site.scope, list(self.library.shown)))
        assert sorted(views) == self.library.live()
        told = {meme_id: view.not_searchable for meme_id, view in views.items()}
        assert {meme_id for meme_id, reason in told.items() if reason is None} == set(found), told

    def the_state_is_as_it_was_left(self) -> None:
        library = self.library
        state = self.run(self._state())
        assert (state.mode.value, state.epoch) == (library.mode, library.epoch)
        assert (state.serving, state.filling) == (library.serving, library.filling)
        target = library.filling or library.serves
        status = self.run(migrate_search.status(self.process.both, self.site.scope))
        assert (status.target, status.missing) == (target, len(library.missing(target)))

    def a_process_without_the_model_says_so(self) -> None:
        read = self.library.reads()
        _, error = self._tried(search(self.process.alone, self.site.scope, Query("cat")))
        if read.space == TWO:
            assert isinstance(error, ModelNotConfigured), error
            assert error.details["space_id"] == TWO.id
        else:
            assert error is None or isinstance(error, CacheNotReady), error

    def _keep(self, library: Library, meme_id: MemeId, content: str, name: str) -> None:
        library.lost.discard(content)
        library.shown.setdefault(meme_id, Shown(content, name))

    async def _settle_neighbour(self) -> None:
        """Put the same pictures and words into another scope, findable in both spaces."""
        await self.process.make_slots()
        scope, words = self.site.beside, DESCRIPTIONS[0]
        self.process.agent.script.always(lambda _: AgentAnswer(words, ContextStatus.READY))
        for content in PICTURES[:2]:
            found = await self.process.upload(scope, content, NAMES[0])
            self._keep(self.neighbour, found.meme.meme_id, content, NAMES[0])
        await self.process.describe(scope)
        await self.process.embed_texts(scope)
        for meme_id, shown in self.neighbour.shown.items():
            shown.description = words
            for space in SPACES:
                self.neighbour.write(meme_id, shown.version, space)
        self.neighbour.pin(ONE)

    async def _edit(self, meme_id: MemeId, words: Description) -> None:
        async with self.site.world.uow.begin(self.site.scope) as tx:
            before = (await tx.contexts.get([meme_id])).get(meme_id)
        revision = before.revision if before else 0
        await edit_context(self.process.both, self.site.scope, meme_id, revision, words)

    async def _retry(self, meme_id: MemeId) -> None:
        async with self.site.world.uow.begin(self.site.scope) as tx:
            job = (await tx.jobs.newest([meme_id]))[meme_id]
        with suppress(JobNotRetryable):
            await retry_job(self.process.both, self.site.scope, job.job_id)

    async def _state(self) -> SearchState:
        async with self.site.world.uow.begin(self.site.scope) as tx:
            return await tx.search.state()

    async def _embed(self, knows_both: bool, limit: int) -> None:
        worker = self.process.both if knows_both else self.process.alone
        await self.process.reconcile(self.site.scope)
        claimed = await claim_tasks(worker, self.site.scope, TaskType.TEXT, limit, OWNER)
        for execution, outcome in await self.process.performed(self.site.scope, claimed, worker):
            assert execution.meme is not None, "a text's task has its meme"
            self.hands.append(Hand(execution, outcome, self.library.shown[execution.meme.meme_id].version))

    def _lose_leases(self) -> None:
        self.site.world.heartbeat.renew([hand.execution.claim for hand in self.hands], timedelta(0))
        self.run(expire_leases(self.process.both, self.site.scope, IMAGE_TASK_TYPES, 50))
        for hand in self.hands:
            hand.lost = True

    def _written(self, hand: Hand, answer: Settled | Fenced) -> None:
        """A vector lands exactly if its claim was current, and it is of what its meme is now (I4, I5)."""
        shown = self.library.shown[hand.meme_id]
        good = isinstance(hand.outcome, Succeeded) and isinstance(hand.outcome.product, TextProduct)
        lands = good and not hand.lost and shown.alive and shown.version == hand.version
        assert isinstance(answer, Fenced) == hand.lost, answer
        written = [] if isinstance(answer, Fenced) else [answer.product, *answer.beside]
        assert isinstance(written[0] if written else None, TextProduct) == lands, answer
        if not lands:
            return
        spaces = {space.id: space for space in SPACES}
        for product in written:
            assert isinstance(product, TextProduct), product
            self.library.write(hand.meme_id, hand.version, spaces[product.space_id])
        self.library.pin(ONE)

    def _tried(self, work: Awaitable[T]) -> tuple[T | None, ImgprocError | None]:
        try:
            return self.run(work), None
        except ImgprocError as error:
            return None, error

    def _is_incomplete(self, error: ImgprocError | None, space: VectorSpace, missing: Sequence[MemeId]) -> None:
        assert isinstance(error, SearchIncomplete), error
        named = [str(meme_id) for meme_id in missing[:20]]
        assert error.details == {"missing": len(missing), "meme_ids": named, "space_id": space.id}

    def _expect(self, library: Library, scope: Scope, query: Query) -> Answer | None:
        expected = library.answer(query)
        found, error = self._tried(search(self.process.both, scope, query))
        if expected is None:
            assert isinstance(error, CacheNotReady), (found, error)
            assert error.details["total"] == len(library.live())
        else:
            assert (found, error) == (expected, None)
        return expected

    def _expect_pages(self, query: Query) -> None:
        """Every page is the part of the one order that it says, until there is no next one."""
        whole = self.library.answer(evolve(query, n_results=100))
        hits: list[MemeId] = []
        following: int | None = 0
        while following is not None:
            page = self._expect(self.library, self.site.scope, evolve(query, offset=following))
            following = page.next_offset if page else None
            hits += [hit.meme_id for hit in page.hits] if page else []
        assert hits == ([hit.meme_id for hit in whole.hits] if whole else [])

    def teardown(self) -> None:
        try:
            self.runner.run(self.site.check())
        finally:
            self.runner.run(self.site.close())
            self.runner.close()

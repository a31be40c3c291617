"""Search as a Hypothesis state machine: whatever becomes of a library, exactly what should be found is found.

Subclass `SearchMachine` with `open_site` for the adapters under test. After every step both rankings are asked, whole
and page by page, and compared with what `search_oracle` worked out from the events alone; another scope, with the same
pictures, is never affected.
"""

from datetime import timedelta
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from imgproc_adapters.testing.pipeline import chosen, content_of, settling
from imgproc_adapters.testing.search_bench import SearchBench
from imgproc_adapters.testing.search_oracle import BACKFILL, INCREMENTAL, LEGACY
from imgproc_adapters.testing.search_world import (
    DESCRIPTIONS,
    NAMES,
    ONE,
    PICTURES,
    SPACES,
    TWO,
    UNFIT,
)
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.errors import (
    Conflict,
    LegacyNotReady,
    MigrationConflict,
)
from imgproc_domain.ports.models import AgentAnswer
from imgproc_domain.product import ContextProduct
from imgproc_domain.search import Source
from imgproc_domain.usecases import migrate_search
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.settle import settle

AGE: Final = timedelta(days=100)
CONTENTS: Final = st.sampled_from(PICTURES)
FILES: Final = st.sampled_from(NAMES)
WORDS: Final = st.sampled_from(DESCRIPTIONS)
ANSWERS: Final = st.sampled_from(["good", "good", "good", *UNFIT])
SPACE: Final = st.sampled_from(SPACES)
PICK: Final = st.integers(0, 7)
ALLOWED: Final = st.sampled_from([0, 0, 1, 99])


class SearchMachine(SearchBench):
    """People, workers, operators and time do to a library what they can; searches say what they must."""

    @rule(content=CONTENTS, name=FILES)
    def a_picture_is_uploaded(self, content: str, name: str) -> None:
        self._keep(
            self.library, self.run(self.process.upload(self.site.scope, content, name)).meme.meme_id, content, name
        )

    @initialize(first=WORDS, second=WORDS, knows_both=st.booleans())
    def two_pictures_are_there(self, first: Description, second: Description, knows_both: bool) -> None:
        for content, words in zip(PICTURES, (first, second), strict=False):
            self.a_picture_becomes_findable(content, NAMES[0], words, knows_both)

    @rule(content=CONTENTS, name=FILES, words=WORDS, knows_both=st.booleans())
    def a_picture_becomes_findable(self, content: str, name: str, words: Description, knows_both: bool) -> None:
        self.a_picture_is_uploaded(content, name)
        self.everything_is_worked_off(words, knows_both)

    @rule(words=WORDS, knows_both=st.booleans())
    def everything_is_worked_off(self, words: Description, knows_both: bool) -> None:
        self.pictures_are_described(words, ContextStatus.READY)
        self.texts_are_embedded("good", "good", knows_both, len(self.library.shown))
        if self.hands:
            self.a_worker_writes_back(0, together=True)

    @rule(words=WORDS, status=st.sampled_from([ContextStatus.READY, ContextStatus.PARTIAL]))
    def pictures_are_described(self, words: Description, status: ContextStatus) -> None:
        self.process.agent.script.always(lambda _: AgentAnswer(words, status))
        for settled in self.run(self.process.describe(self.site.scope)):
            if isinstance(settled.product, ContextProduct):
                shown = self.library.shown[settled.product.meme_id]
                if shown.description not in (None, words):
                    self.library.touch(settled.product.meme_id)
                shown.description = words

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK, words=WORDS, at_once=st.booleans())
    def a_context_is_edited(self, pick: int, words: Description, at_once: bool) -> None:
        meme_id = chosen(self.library.live(), pick)
        self.run(self._edit(meme_id, words))
        self.library.shown[meme_id].description = words
        self.library.touch(meme_id)
        if at_once:
            self.everything_is_worked_off(words, knows_both=True)

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK, content=CONTENTS, name=st.none() | FILES)
    def a_picture_is_replaced(self, pick: int, content: str, name: str | None) -> None:
        """Replace, put back, or only rename."""
        meme_id = chosen(self.library.live(), pick)
        self.library.lost.discard(content)
        try:
            self.run(replace_picture(self.process.both, self.site.scope, meme_id, name, content_of(content)))
        except Conflict:
            assert any(
                self.library.shown[other].content == content for other in self.library.live() if other != meme_id
            )
            return
        shown = self.library.shown[meme_id]
        shown.content, shown.filename = content, name or shown.filename
        self.library.touch(meme_id)

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK)
    def a_picture_is_deleted(self, pick: int) -> None:
        meme_id = chosen(self.library.live(), pick)
        self.run(delete_meme(self.process.both, self.site.scope, meme_id))
        self.library.shown[meme_id].alive = False
        self.library.touch(meme_id)

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK)
    def a_job_is_retried(self, pick: int) -> None:
        self.run(self._retry(chosen(self.library.live(), pick)))

    @rule(answer=ANSWERS, beside=ANSWERS, knows_both=st.booleans(), limit=st.integers(1, 2))
    def texts_are_embedded(self, answer: str, beside: str, knows_both: bool, limit: int) -> None:
        """Let a worker claim texts and hear of their vectors: what becomes of them is decided when it writes back."""
        with self.process.answering(ONE, answer), self.process.answering(TWO, beside):
            self.run(self._embed(knows_both, limit))

    @precondition(lambda self: self.hands)
    @rule(pick=PICK, together=st.booleans())
    def a_worker_writes_back(self, pick: int, together: bool) -> None:
        hands = list(self.hands) if together else [chosen(self.hands, pick)]
        self.hands = [hand for hand in self.hands if hand not in hands]
        items = [settling(hand.execution, hand.outcome) for hand in hands]
        for hand, answer in zip(hands, self.run(settle(self.process.both, self.site.scope, items)), strict=True):
            self._written(hand, answer)

    @precondition(lambda self: any(not hand.lost for hand in self.hands))
    @rule()
    def workers_are_lost(self) -> None:
        """Take the leases of all calls away; their results may arrive later, and change nothing."""
        self._lose_leases()

    @rule(space=st.none() | SPACE, window=st.integers(1, 3), answer=ANSWERS, again=st.booleans())
    def a_backfill_embeds_a_window(self, space: VectorSpace | None, window: int, answer: str, again: bool) -> None:
        library, target = self.library, space or self.library.filling or self.library.serves
        library.begin_filling(target)
        after = None if again else self.cursors.get(target)
        behind = [key for key in library.live() if after is None or key > after]
        missing = [key for key in library.missing(target) if key in behind[:window]]
        there = library.findable(target)
        unfit = library.shown[missing[0]].version[1] if missing and answer in UNFIT else None
        with self.process.answering(target, answer, unfit):
            found = self.run(self.process.embed_window(space, window, after))
        self.cursors[target] = found.after
        for key in missing:
            library.touch(key)
        texts = {key: library.shown[key].version[1] for key in missing if key not in there}
        made = [key for key, text in texts.items() if text != unfit]
        for key in made:
            library.write(key, library.shown[key].version, target)
        if made:
            library.pin(target)
        assert {failure.meme_id for failure in found.failed} == set(texts) - set(made)
        counted = (found.seen, found.adopted, found.embedded, found.changed)
        assert counted == (len(behind[:window]), len(missing) - len(texts), len(made), 0)
        assert found.after == (behind[window - 1] if len(behind) > window else None)

    @rule()
    def a_generation_is_built(self) -> None:
        self.run(self.process.build_generation())
        self.library.copy()

    @rule(knows_both=st.booleans())
    def a_legacy_index_answers(self, knows_both: bool) -> None:
        self.everything_is_worked_off(DESCRIPTIONS[0], knows_both)
        self.a_generation_is_built()
        self.searches_go_back_to_the_legacy_index()

    @rule(space=SPACE)
    def another_space_is_filled(self, space: VectorSpace) -> None:
        self.a_backfill_embeds_a_window(space, 99, "good", again=True)
        self.searches_switch(0)

    @rule()
    def a_migration_starts(self) -> None:
        self.run(migrate_search.start(self.process.both, self.site.scope))
        if self.library.mode == LEGACY:
            self.library.step(BACKFILL)

    @rule(allow=ALLOWED)
    def searches_switch(self, allow: int) -> None:
        library = self.library
        settled = library.filling is None and library.mode != BACKFILL
        target = library.filling or library.serves
        missing = library.missing(target)
        _, error = self._tried(migrate_search.switch(self.process.both, self.site.scope, allow))
        if settled:
            assert isinstance(error, MigrationConflict), error
        elif len(missing) > allow:
            self._is_incomplete(error, target, missing)
        else:
            assert error is None, error
            library.step(INCREMENTAL if library.mode == BACKFILL else library.mode)
            library.serving, library.filling = target, None

    @rule()
    def what_was_begun_is_stopped(self) -> None:
        library = self.library
        _, error = self._tried(migrate_search.rollback(self.process.both, self.site.scope))
        if library.filling is not None:
            library.filling = None
            library.step(library.mode)
        elif library.mode == BACKFILL:
            library.step(LEGACY)
        else:
            assert isinstance(error, MigrationConflict), error
            return
        assert error is None, error

    @rule()
    def searches_go_back_to_the_legacy_index(self) -> None:
        _, error = self._tried(migrate_search.rollback(self.process.both, self.site.scope, Source.LEGACY))
        if self.library.copied is None:
            assert isinstance(error, LegacyNotReady), error
            return
        assert error is None, error
        if self.library.mode != LEGACY:
            self.library.step(LEGACY)

    @rule(space=SPACE, allow=ALLOWED)
    def searches_go_back_to_a_space(self, space: VectorSpace, allow: int) -> None:
        library = self.library
        _, error = self._tried(migrate_search.rollback(self.process.both, self.site.scope, space, allow))
        if space == library.serves and library.filling is None:
            assert isinstance(error, MigrationConflict), error
            return
        if space != library.serves:
            library.begin_filling(space)
            if len(missing := library.missing(space)) > allow:
                self._is_incomplete(error, space, missing)
                return
        assert error is None, error
        library.step(library.mode)
        library.serving, library.filling = space, None

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK)
    def a_file_is_lost(self, pick: int) -> None:
        content = self.library.shown[chosen(self.library.live(), pick)].content
        self.run(self.process.lose_file(content))
        self.library.lost.add(content)

    @precondition(lambda self: self.library.live())
    @rule(pick=PICK)
    def words_are_not_known_yet(self, pick: int) -> None:
        meme_id = chosen(self.library.live(), pick)
        self.run(self.site.forget_words(meme_id))
        found = {space.id for space in SPACES if meme_id in self.library.findable(space)}
        self.library.wordless |= {(space_id, meme_id) for space_id in found}

    @rule(knows_both=st.booleans())
    def time_passes_and_old_vectors_go(self, knows_both: bool) -> None:
        self._lose_leases()
        self.run(self.site.age(AGE))
        deployment = self.process.both if knows_both else self.process.alone
        self.run(self.process.prune(deployment, self.library))
        used = {ONE, self.library.serving, self.library.filling, *(SPACES if knows_both else ())}
        self.library.forget_old({space.id for space in used if space is not None})

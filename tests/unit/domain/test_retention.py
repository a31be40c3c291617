"""What of the history may go."""

from datetime import timedelta

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import LONG_AGO, digest, make_context, make_meme, new_id
from imgproc_domain.config import ProcessingConfig, VectorSpace
from imgproc_domain.errors import InvalidValue
from imgproc_domain.ids import GenerationId, JobId, Sha256, TaskId
from imgproc_domain.policy import Operation
from imgproc_domain.product import Products, TextStamp, VisualStamp
from imgproc_domain.retention import (
    Cutoff,
    JobFacts,
    KeyFacts,
    MaintenanceFacts,
    MemeFacts,
    TaskFacts,
    job_may_go,
    maintenance_may_go,
    meme_may_go,
    parse_age,
    reservation_may_go,
    stale_vectors,
    tombstone_may_go,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NOW = LONG_AGO + 100 * DAY
CUTOFF = Cutoff.at(NOW, 10 * DAY, 2 * HOUR)
OLD, YOUNG = NOW - 11 * DAY, NOW - 9 * DAY

TASK = TaskFacts(TaskId(new_id()), OLD)
JOB = JobFacts(JobId(new_id()), OLD, tasks=(TASK,))
USED = {"text", "old-text"}
"""The space of the configuration, and one that serves still."""

KEY = KeyFacts(Operation.ANALYSIS_AGENT, "key", OLD)

NEEDED_TASKS = {
    "live": evolve(TASK, completed_at=None),
    "young": evolve(TASK, completed_at=YOUNG),
    "in a slot": evolve(TASK, in_slot=True),
    "undecided": evolve(TASK, undecided=True),
    "running": evolve(TASK, running_until=NOW + HOUR),
    "releasing": evolve(TASK, releasing=True),
}
UNFINISHED = {
    "live": evolve(JOB, completed_at=None),
    "young": evolve(JOB, completed_at=YOUNG),
    "releasing": evolve(JOB, releasing=True),
    **{f"task {name}": evolve(JOB, tasks=(TASK, task)) for name, task in NEEDED_TASKS.items()},
}
NEEDED = {
    "newest": evolve(JOB, newest=True),
    "the last to ask": evolve(JOB, last_agent=True),
    "what made the context": evolve(JOB, tasks=(TASK, evolve(TASK, describes=True))),
}


def test_a_superseded_job_that_is_over_for_long_may_go() -> None:
    assert job_may_go(JOB, CUTOFF)
    assert job_may_go(evolve(JOB, tasks=(evolve(TASK, running_until=NOW),)), CUTOFF)


@pytest.mark.parametrize("job", [*UNFINISHED.values(), *NEEDED.values()], ids=[*UNFINISHED, *NEEDED])
def test_a_job_that_somebody_needs_may_not_go(job: JobFacts) -> None:
    assert not job_may_go(job, CUTOFF)


@pytest.mark.parametrize("job", NEEDED.values(), ids=NEEDED)
def test_what_a_submission_would_look_at_goes_with_a_deleted_meme(job: JobFacts) -> None:
    assert meme_may_go(MemeFacts(make_meme(deleted_at=OLD), (JOB, job)), CUTOFF)


@pytest.mark.parametrize("job", UNFINISHED.values(), ids=UNFINISHED)
def test_a_deleted_meme_stays_as_long_as_one_of_its_jobs_is_needed(job: JobFacts) -> None:
    assert not meme_may_go(MemeFacts(make_meme(deleted_at=OLD), (JOB, job)), CUTOFF)


def test_only_a_meme_that_was_deleted_long_ago_may_go() -> None:
    assert not meme_may_go(MemeFacts(make_meme()), CUTOFF)
    assert not meme_may_go(MemeFacts(make_meme(deleted_at=YOUNG)), CUTOFF)


def test_a_complete_generation_stays_until_a_later_one_has_served_for_long() -> None:
    facts = MaintenanceFacts(TASK, GenerationId(new_id()), complete=True)
    assert not maintenance_may_go(facts, CUTOFF)
    assert not maintenance_may_go(evolve(facts, superseded_at=YOUNG), CUTOFF)
    assert maintenance_may_go(evolve(facts, superseded_at=OLD), CUTOFF)
    assert maintenance_may_go(evolve(facts, complete=False), CUTOFF)
    for task in NEEDED_TASKS.values():
        assert not maintenance_may_go(evolve(facts, task=task, superseded_at=OLD), CUTOFF)


def test_a_key_goes_when_nobody_can_ask_for_it() -> None:
    assert tombstone_may_go(KEY, CUTOFF)
    assert not tombstone_may_go(evolve(KEY, in_use=True), CUTOFF)
    assert not tombstone_may_go(evolve(KEY, settled_at=None), CUTOFF)
    assert not tombstone_may_go(evolve(KEY, settled_at=YOUNG), CUTOFF)


def test_keys_outlive_every_claim_under_which_they_are_asked_for() -> None:
    """However short the age that was asked for."""
    cutoff = Cutoff.at(NOW, DAY, 2 * HOUR)
    assert tombstone_may_go(evolve(KEY, settled_at=NOW - DAY - 3 * HOUR), cutoff)
    assert not tombstone_may_go(evolve(KEY, settled_at=NOW - DAY - HOUR), cutoff)


def test_a_reservation_stays_as_long_as_a_period_counts_it() -> None:
    assert not reservation_may_go(KEY, CUTOFF)
    assert not reservation_may_go(evolve(KEY, settled_at=NOW - 31 * DAY), CUTOFF)
    assert reservation_may_go(evolve(KEY, settled_at=NOW - 33 * DAY), CUTOFF)
    assert not reservation_may_go(evolve(KEY, settled_at=NOW - 33 * DAY, in_use=True), CUTOFF)
    assert not reservation_may_go(evolve(KEY, settled_at=NOW - 33 * DAY), Cutoff.at(NOW, 40 * DAY, HOUR))


SPACES = {name: VectorSpace(name, 8) for name in ("visual", "text", "old-visual", "old-text")}
CONFIG = ProcessingConfig(SPACES["visual"], "agent", SPACES["text"])


def seen(sha256: Sha256, space: str = "visual") -> VisualStamp:
    return VisualStamp(sha256, space, 8)


def read(sha256: Sha256, words: Sha256 | None, space: str = "text") -> TextStamp:
    assert words is not None
    return TextStamp(sha256, words, space, 8)


def test_vectors_of_former_pictures_words_and_models_may_go() -> None:
    meme = make_meme()
    context = make_context(meme)
    picture, words, other = meme.picture.sha256, context.metadata_hash, digest("another")
    visual = {seen(other), seen(other, "old-visual"), seen(picture, "old-visual")}
    text = {read(other, words), read(picture, other)}
    stored = Products(
        visual=frozenset({*visual, seen(picture)}),
        context=context,
        text=frozenset({*text, read(picture, words), read(picture, words, "old-text")}),
    )
    stale_visual, stale_text = stale_vectors(meme, stored, CONFIG, USED, CUTOFF)
    assert (set(stale_visual), set(stale_text)) == (visual, text)


def test_vectors_of_a_space_that_nobody_uses_any_more_go_where_another_one_is() -> None:
    meme = make_meme()
    context = make_context(meme)
    picture, words = meme.picture.sha256, context.metadata_hash
    abandoned = {read(picture, words, "former-text"), read(picture, words, "older-text")}
    kept = {read(picture, words), read(picture, words, "old-text")}
    for used in (kept, {read(picture, words, "old-text")}):
        _, stale = stale_vectors(
            meme, Products(context=context, text=frozenset(abandoned | used)), CONFIG, USED, CUTOFF
        )
        assert set(stale) == abandoned
    _, stale = stale_vectors(meme, Products(context=context, text=frozenset(abandoned)), CONFIG, USED, CUTOFF)
    assert list(stale) == [], "they are the only ones"


def test_vectors_that_nothing_has_replaced_stay() -> None:
    meme = make_meme()
    picture, other = meme.picture.sha256, digest("another")
    stored = Products(
        visual=frozenset({seen(picture, "old-visual")}),
        context=make_context(meme),
        text=frozenset({read(picture, other)}),
    )
    assert stale_vectors(meme, stored, CONFIG, USED, CUTOFF) == ([], [])


@pytest.mark.parametrize("changed", ["picture", "words", "deleted"])
def test_vectors_that_became_stale_lately_stay(changed: str) -> None:
    meme = make_meme(deleted_at=OLD if changed == "deleted" else None)
    context = make_context(meme)
    if changed == "picture":
        meme = evolve(meme, updated_at=YOUNG)
    if changed == "words":
        context = evolve(context, updated_at=YOUNG)
    stored = Products(visual=frozenset({seen(digest("another"))}), context=context)
    assert stale_vectors(meme, stored, CONFIG, USED, CUTOFF) == ((), ())


@pytest.mark.parametrize(
    ("raw", "age"), [("1d", DAY), ("36h", 36 * HOUR), (" 2w ", 14 * DAY), ("36500d", 36_500 * DAY)]
)
def test_an_age_is_hours_days_or_weeks(raw: str, age: timedelta) -> None:
    assert parse_age(raw) == age


@pytest.mark.parametrize("raw", ["", "90", "d", "23h", "0d", "-1d", "1.5d", "1m", "36501d", "9999999w", "1d2h"])
def test_anything_else_is_no_age(raw: str) -> None:
    with pytest.raises(InvalidValue, match="36h, 90d or 12w"):
        parse_age(raw)

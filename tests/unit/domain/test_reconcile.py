"""From what is stored to the one next step of a job."""

from itertools import product

import pytest
from attrs import evolve
from tests.unit.domain.build import (
    CONFIG,
    NOW,
    OTHER_PICTURE,
    UNKNOWN,
    cat,
    context_of,
    job_at,
    job_in,
    products_up_to,
)

from imgproc_domain.config import VectorSpace
from imgproc_domain.context import ContextStatus, Description, Origin
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.job import LIVE, Job, JobStatus, withhold
from imgproc_domain.meme import Meme
from imgproc_domain.product import Products
from imgproc_domain.reconcile import (
    AwaitTask,
    Close,
    Decision,
    Facts,
    FailStage,
    Finish,
    Nothing,
    OpenStage,
    Renew,
    reconcile,
)
from imgproc_domain.stage import STAGES, ReverseImagePolicy, Stage

S = JobStatus
VALID_UP_TO = [*STAGES, None]


def step(job: Job, meme: Meme | None, products: Products, *, busy: bool = False) -> Decision:
    return reconcile(Facts(job, meme, products, busy, CONFIG))


@pytest.mark.parametrize(("stale", "busy"), list(product(VALID_UP_TO, [False, True])))
@pytest.mark.parametrize("status", [status for status in JobStatus if status not in LIVE])
def test_an_ended_job_has_no_next_step(status: JobStatus, stale: Stage | None, busy: bool) -> None:
    meme = cat()
    assert step(job_in(status, meme=meme), meme, products_up_to(stale, meme), busy=busy) == Nothing()
    assert step(job_in(status, meme=meme), None, Products(), busy=busy) == Nothing()


@pytest.mark.parametrize("busy", [False, True])
def test_a_withheld_call_ends_its_job_where_it_would_be_made(busy: bool) -> None:
    meme = cat()
    job = withhold(job_at(Stage.AGENT, S.QUEUED, meme=meme), UNKNOWN)
    decision = step(job, meme, products_up_to(Stage.AGENT, meme), busy=busy)
    assert decision == FailStage(Stage.AGENT, (Stage.VISUAL,), UNKNOWN)


def test_a_withheld_call_stops_neither_the_stage_before_it_nor_one_whose_context_is_valid() -> None:
    meme = cat()
    job = withhold(job_in(S.QUEUED, meme=meme), UNKNOWN)
    assert step(job, meme, products_up_to(Stage.VISUAL, meme)) == OpenStage(Stage.VISUAL, ())
    assert step(job, meme, products_up_to(Stage.TEXT, meme)) == OpenStage(Stage.TEXT, (Stage.VISUAL, Stage.AGENT))


@pytest.mark.parametrize("stale", VALID_UP_TO)
@pytest.mark.parametrize("withheld", [None, UNKNOWN])
def test_a_new_job_without_a_visual_product_begins_with_its_first_stage_whatever_else_is_stored(
    stale: Stage | None, withheld: Diagnosis | None
) -> None:
    meme = cat()
    stored = evolve(products_up_to(stale, meme), visual=frozenset())
    assert step(withhold(job_in(S.QUEUED, meme=meme), withheld), meme, stored) == OpenStage(STAGES[0], ())


@pytest.mark.parametrize(("status", "stale", "busy"), list(product(LIVE, VALID_UP_TO, [False, True])))
def test_a_job_ends_when_its_picture_is_gone_or_another_one(status: JobStatus, stale: Stage | None, busy: bool) -> None:
    meme = cat()
    job, products = job_in(status, meme=meme), products_up_to(stale, meme)
    replaced = evolve(meme, picture=evolve(meme.picture, sha256=OTHER_PICTURE))
    for now in (None, evolve(meme, deleted_at=NOW), replaced):
        decision = step(job, now, products, busy=busy)
        assert isinstance(decision, Close)
        assert decision.diagnosis.code is ErrorCode.TARGET_CHANGED


@pytest.mark.parametrize(("stale", "busy"), list(product(VALID_UP_TO, [False, True])))
def test_a_job_of_an_older_configuration_gives_way_to_the_next_revision(stale: Stage | None, busy: bool) -> None:
    meme = cat()
    other = evolve(CONFIG, text=VectorSpace("text-2", 8))
    decision = reconcile(Facts(job_in(S.RUNNING, meme=meme), meme, products_up_to(stale, meme), busy, other))
    assert isinstance(decision, Renew)
    assert decision.diagnosis.code is ErrorCode.CONFIGURATION_CHANGED


def test_a_picture_that_is_gone_matters_more_than_a_configuration_that_changed() -> None:
    meme = cat()
    other = evolve(CONFIG, agent_fingerprint="agent-2")
    assert isinstance(reconcile(Facts(job_in(S.QUEUED, meme=meme), None, Products(), busy=False, config=other)), Close)


@pytest.mark.parametrize(("status", "busy"), list(product(LIVE, [False, True])))
def test_a_job_finishes_once_all_three_products_are_valid(status: JobStatus, busy: bool) -> None:
    meme = cat()
    assert step(job_in(status, meme=meme), meme, products_up_to(None, meme), busy=busy) == Finish(STAGES)


@pytest.mark.parametrize("stale", STAGES)
def test_the_first_stale_stage_is_opened_and_the_ones_before_it_reused(stale: Stage) -> None:
    meme = cat()
    decision = step(job_in(S.QUEUED, meme=meme), meme, products_up_to(stale, meme))
    assert decision == OpenStage(stale, STAGES[: STAGES.index(stale)])


def test_later_products_do_not_help_while_an_earlier_one_is_stale() -> None:
    meme = cat()
    products = evolve(products_up_to(None, meme), visual=frozenset())
    assert step(job_in(S.QUEUED, meme=meme), meme, products) == OpenStage(Stage.VISUAL, ())


@pytest.mark.parametrize("stale", STAGES)
def test_a_job_waits_for_its_own_task(stale: Stage) -> None:
    meme = cat()
    assert step(job_at(stale, meme=meme), meme, products_up_to(stale, meme), busy=True) == Nothing()


@pytest.mark.parametrize("stale", STAGES)
def test_a_job_waits_for_a_task_of_another_origin_on_the_same_picture_version(stale: Stage) -> None:
    meme = cat()
    assert step(job_at(stale, S.QUEUED, meme=meme), meme, products_up_to(stale, meme), busy=True) == AwaitTask()


@pytest.mark.parametrize(("stale", "busy"), list(product(STAGES, [False, True])))
def test_a_product_that_went_stale_after_its_stage_succeeded_needs_a_new_revision(stale: Stage, busy: bool) -> None:
    meme = cat()
    decision = step(job_at(stale, S.SUCCEEDED, meme=meme), meme, products_up_to(stale, meme), busy=busy)
    assert isinstance(decision, Renew)
    assert decision.diagnosis.code is ErrorCode.TARGET_CHANGED
    assert str(stale) in decision.diagnosis.message


SILENT = Description(search_queries=("cat",), uncertainties=("maybe a cat",))


def test_the_text_stage_fails_when_there_is_nothing_to_embed() -> None:
    meme = cat()
    products = evolve(products_up_to(Stage.TEXT, meme), context=context_of(meme, SILENT))
    decision = step(job_at(Stage.TEXT, S.QUEUED, meme=meme), meme, products)
    assert isinstance(decision, FailStage)
    assert (decision.stage, decision.reused) == (Stage.TEXT, (Stage.VISUAL, Stage.AGENT))
    assert decision.diagnosis.code is ErrorCode.NO_EMBEDDABLE_TEXT


def test_a_live_text_task_decides_itself_what_to_do_without_text() -> None:
    meme = cat()
    products = evolve(products_up_to(Stage.TEXT, meme), context=context_of(meme, SILENT))
    assert step(job_at(Stage.TEXT, meme=meme), meme, products, busy=True) == Nothing()


def test_words_of_a_person_stand_in_for_the_agent() -> None:
    meme = cat()
    edited = context_of(meme, origin=Origin.PERSON)
    products = products_up_to(Stage.TEXT, meme, edited)
    assert step(job_in(S.QUEUED, meme=meme), meme, products) == OpenStage(Stage.TEXT, (Stage.VISUAL, Stage.AGENT))


@pytest.mark.parametrize("status", [ContextStatus.PENDING, ContextStatus.REPAIR_REQUIRED])
def test_a_context_that_is_not_usable_is_made_again(status: ContextStatus) -> None:
    meme = cat()
    products = products_up_to(Stage.TEXT, meme, context_of(meme, status=status))
    assert step(job_in(S.QUEUED, meme=meme), meme, products) == OpenStage(Stage.AGENT, (Stage.VISUAL,))


def test_a_context_made_under_another_policy_is_made_again() -> None:
    meme = cat()
    products = products_up_to(None, meme, context_of(meme, policy=ReverseImagePolicy.AUTO))
    assert step(job_in(S.QUEUED, meme=meme), meme, products) == OpenStage(Stage.AGENT, (Stage.VISUAL,))


def test_a_running_stage_ends_with_its_task_even_when_its_product_became_valid_by_other_means() -> None:
    meme = cat()
    products = products_up_to(Stage.TEXT, meme, context_of(meme, origin=Origin.PERSON))
    assert step(job_at(Stage.AGENT, meme=meme), meme, products) == Nothing()

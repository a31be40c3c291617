"""What can be found follows what a picture is described as, and people are told the same."""

from datetime import timedelta

import pytest

from imgproc_adapters.testing.pipeline import OWNER, content_of
from imgproc_adapters.testing.search_oracle import exact_vector
from imgproc_adapters.testing.search_world import ONE, TWO, Process, SearchSite
from imgproc_adapters.testing.seed import A, B
from imgproc_adapters.testing.world import memory_world
from imgproc_domain.context import ContextStatus, Description
from imgproc_domain.eligibility import Reason
from imgproc_domain.ids import MemeId
from imgproc_domain.ports.models import AgentAnswer
from imgproc_domain.search import MEANING, Query
from imgproc_domain.stage import TaskType
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.edit import replace_picture
from imgproc_domain.usecases.migrate_search import begin_filling, switch
from imgproc_domain.usecases.search import search
from imgproc_domain.usecases.views import get_image
from imgproc_domain.words import Field

TITLED, SUMMED_UP = Description(title="a cat at a meeting"), Description(summary="a cat at a meeting")


@pytest.fixture
async def process() -> Process:
    async def nothing(_: timedelta | MemeId) -> None:
        return None

    async def done() -> None:
        return None

    process = Process(SearchSite(memory_world(), A, B, nothing, nothing, done, done))
    await process.make_slots()
    return process


async def described(process: Process, words: Description) -> None:
    process.agent.script.always(lambda _: AgentAnswer(words, ContextStatus.READY))
    await process.describe(A)
    await process.embed_texts(A)


async def test_words_that_move_to_another_field_are_found_there_alone(process: Process) -> None:
    """The same text is embedded wherever it stands; by words it is found only where words are looked for."""
    meme_id = (await process.upload(A, "cat", "x.png")).meme.meme_id
    await described(process, TITLED)
    for content, words in (("dog", TITLED), ("cat", SUMMED_UP)):
        await replace_picture(process.both, A, meme_id, None, content_of(content))
        await described(process, words)
    async with process.site.world.uow.begin(A) as tx:
        assert await tx.search.nearest(ONE.id, exact_vector("cat", ONE.dimension), 10)
        assert not await tx.search.worded(ONE.id, exact_vector("cat", ONE.dimension), ["cat"], 10)


async def test_people_are_told_what_is_found_in_the_space_that_serves(process: Process) -> None:
    meme_id = (await process.upload(A, "cat", "cat.png")).meme.meme_id
    process.agent.script.always(lambda _: AgentAnswer(TITLED, ContextStatus.READY))
    await process.describe(A)
    claimed = await claim_tasks(process.alone, A, TaskType.TEXT, 1, OWNER)
    await process.finish(A, claimed, process.alone)
    assert (await get_image(process.both, A, meme_id)).not_searchable is None
    await begin_filling(process.both, A, TWO)
    await switch(process.both, A, allow_missing=1)
    assert (await get_image(process.both, A, meme_id)).not_searchable is Reason.VECTOR_STALE
    await process.embed_window(TWO, 1, None)
    assert (await get_image(process.both, A, meme_id)).not_searchable is None
    (hit,) = (await search(process.both, A, Query("cat"))).hits
    assert hit.matched == (MEANING, Field.TITLE, Field.FILE_NAME)

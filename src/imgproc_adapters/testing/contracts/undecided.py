"""A call that may have been made is made again for a picture only if a person asks, also after the picture was away."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest
from attrs import evolve

from imgproc_adapters.testing.ledger import MemoryLedger, started
from imgproc_adapters.testing.models import AGENT, NOTHING_KNOWN, TEXT, ScriptedAgent, ScriptedVisualModel
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.processes import Process
from imgproc_adapters.testing.seed import A
from imgproc_adapters.testing.world import World
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import Description
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.ids import MemeId
from imgproc_domain.job import LIVE, Job, JobStatus
from imgproc_domain.ports.models import Declined
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import ReverseImagePolicy, Stage, TaskType
from imgproc_domain.usecases.claim import Execution
from imgproc_domain.usecases.edit import edit_context, replace_picture
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.retry import retry_job
from imgproc_domain.usecases.start import start

ROUNDS: Final = 6
DESCRIBED_ONCE: Final = 1
SLOTS: Final = 8
WORDS: Final = Description(title="a person's words")
REFUSED: Final = Declined(Diagnosis(ErrorCode.AGENT_REFUSED, "no"), transient=False)


class _Gallery:
    """One picture that is replaced and put back, and the one process that works on it."""

    def __init__(self, world: World) -> None:
        self.ledger, self.policy = MemoryLedger(), RememberingPolicy()
        self.agent = ScriptedAgent(ledger=self.ledger)
        self.process, self.later = self._process(world), self._process(world)
        visual = ScriptedVisualModel(VectorSpace("scripted-visual-2", 8), ledger=self.ledger)
        self.later.deployment = evolve(self.later.deployment, visual=visual)
        self.meme_id: MemeId | None = None

    def _process(self, world: World) -> Process:
        return Process(world, agent=self.agent, text="text 1", ledger=self.ledger, policy=self.policy)

    async def open(self) -> MemeId:
        """Show a cat, up to its agent's queued task."""
        await self.process.slots(SLOTS)
        await self.process.take_over()
        self.meme_id = await self.process.upload("cat")
        await self.process.bring_to(TaskType.CONTEXT)
        return self.meme_id

    async def calling(self) -> Sequence[Settling]:
        """Make the call of which nobody hears how it ended; that is not written yet."""
        self.agent.script.then(NOTHING_KNOWN)
        return await self.process.called(await self.process.claim(TaskType.CONTEXT))

    async def put(self, name: str) -> Job:
        assert self.meme_id is not None, "the gallery is open"
        _, job = await replace_picture(self.process.deployment, A, self.meme_id, None, _bytes(name))
        assert job is not None
        return job

    async def back_with_a_stale_vector(self) -> int:
        """Show a dog, then the cat again under a later visual model; return how many calls were made until then."""
        await self.put("dog")
        await self.turns()
        await self.later.take_over()
        await self.put("cat")
        assert (await self.newest()).live
        return self.calls

    async def turns(self, process: Process | None = None) -> None:
        for _ in range(ROUNDS):
            await (process or self.process).turn()

    async def newest(self) -> Job:
        return (await self.process.revisions())[-1]

    @property
    def calls(self) -> int:
        return len(started(self.ledger, AGENT))


def _is_withheld(job: Job) -> bool:
    """Whether the job ended as unknown at its agent stage, without a task, and says so."""
    state = job.stage(Stage.AGENT)
    said = state.error is not None and "retry" in state.error.message and state.error == job.error
    unknown = (job.status, state.status, state.task_id) == (JobStatus.UNKNOWN, JobStatus.UNKNOWN, None)
    return unknown and said and job.stage(Stage.VISUAL).status is JobStatus.SUCCEEDED


class UndecidedContract:
    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("reached", [Stage.VISUAL, Stage.AGENT])
    async def test_a_job_that_waits_for_an_unknown_call_of_its_picture_does_not_repeat_it(
        self, world: World, reached: Stage
    ) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        calling = await gallery.calling()
        called = await gallery.back_with_a_stale_vector()
        if reached is Stage.AGENT:
            await gallery.turns(gallery.later)
        assert (await gallery.newest()).stage(reached).status in LIVE
        await gallery.process.settle(calling)
        assert (await gallery.newest()).live is (reached is Stage.VISUAL)
        await gallery.turns(gallery.later)
        assert _is_withheld(await gallery.newest())
        assert gallery.calls == called

    async def test_nor_if_leases_are_lost_until_nothing_can_be_proven(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        lost: Sequence[Execution] = await gallery.process.claim(TaskType.CONTEXT)
        await start(gallery.process.deployment, A, lost)
        await gallery.put("dog")
        await gallery.put("cat")
        await gallery.turns()
        for _ in range(2 * gallery.process.deployment.limits.retry.max_lease_losses):
            await gallery.process.lose(lost)
            lost = await gallery.process.claim(TaskType.CONTEXT)
        assert not lost
        assert _is_withheld(await gallery.newest())
        await gallery.turns()
        assert gallery.calls == 0

    async def test_a_picture_put_back_after_its_call_became_unknown_is_not_asked_about_again(
        self, world: World
    ) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        calling = await gallery.calling()
        await gallery.put("dog")
        await gallery.process.settle(calling)
        await gallery.turns()
        called = gallery.calls
        await gallery.put("cat")
        await gallery.turns()
        assert _is_withheld(await gallery.newest())
        assert await gallery.process.upload("cat") == gallery.meme_id
        await gallery.turns()
        assert _is_withheld(await gallery.newest())
        assert gallery.calls == called

    async def test_after_a_person_s_retry_the_picture_may_be_asked_about_again(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        await gallery.process.settle(await gallery.calling())
        await gallery.put("dog")
        await gallery.turns()
        await gallery.put("cat")
        await gallery.turns()
        withheld, called = await gallery.newest(), gallery.calls
        await retry_job(gallery.process.deployment, A, withheld.job_id)
        gallery.agent.script.then(REFUSED)
        await gallery.turns()
        assert (await gallery.newest()).error == REFUSED.diagnosis
        assert gallery.calls == called + 1
        # the newest call for the cat has a known end: a person who puts it back asks for another one
        await gallery.put("dog")
        await gallery.put("cat")
        await gallery.turns()
        assert (await gallery.newest()).status is JobStatus.SUCCEEDED
        assert gallery.calls > called + 1

    async def test_another_configuration_does_not_make_the_call_either(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        await gallery.process.settle(await gallery.calling())
        called = await gallery.back_with_a_stale_vector()
        before = await gallery.newest()
        await gallery.process.take_over()
        await gallery.turns()
        newest = await gallery.newest()
        assert _is_withheld(newest)
        assert newest.revision == before.revision + 1
        assert gallery.calls == called

    async def test_an_upload_that_closes_a_withheld_job_for_its_configuration_does_not_make_it(
        self, world: World
    ) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        await gallery.process.settle(await gallery.calling())
        called = await gallery.back_with_a_stale_vector()
        before = await gallery.newest()
        await gallery.process.take_over()
        await gallery.process.upload("cat")
        assert (await gallery.newest()).revision == before.revision + 1
        await gallery.turns()
        assert _is_withheld(await gallery.newest())
        assert gallery.calls == called

    async def test_a_retry_that_is_renewed_for_its_configuration_still_calls(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        await gallery.process.settle(await gallery.calling())
        called = gallery.calls
        retried = await retry_job(gallery.process.deployment, A, (await gallery.newest()).job_id)
        await gallery.later.take_over()
        await gallery.later.upload("cat")
        assert (await gallery.newest()).revision == retried.revision + 1
        await gallery.turns(gallery.later)
        assert (await gallery.newest()).status is JobStatus.SUCCEEDED
        assert gallery.calls == called + 1

    async def test_a_person_s_words_are_used_where_the_call_is_withheld(self, world: World) -> None:
        gallery = _Gallery(world)
        meme_id = await gallery.open()
        await gallery.process.settle(await gallery.calling())
        called = await gallery.back_with_a_stale_vector()
        withheld = await gallery.newest()
        assert withheld.withheld is not None
        await edit_context(gallery.process.deployment, A, meme_id, DESCRIBED_ONCE, WORDS)
        await gallery.turns(gallery.later)
        newest = await gallery.newest()
        assert (newest.job_id, newest.status) == (withheld.job_id, JobStatus.SUCCEEDED)
        assert (newest.stage(Stage.AGENT).reused, newest.stage(Stage.AGENT).error) == (True, None)
        assert (gallery.calls, started(gallery.ledger, TEXT)[-1]) == (called, WORDS.title)

    async def test_another_policy_is_another_question(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        await gallery.process.settle(await gallery.calling())
        called = gallery.calls
        await upload(gallery.process.deployment, A, "a.png", _bytes("cat"), ReverseImagePolicy.AUTO)
        await gallery.turns()
        assert (await gallery.newest()).status is JobStatus.SUCCEEDED
        assert gallery.calls == called + 1

    async def test_an_upload_is_answered_by_the_last_try_of_its_policy_and_not_by_a_new_one(self, world: World) -> None:
        gallery = _Gallery(world)
        await gallery.open()
        gallery.agent.script.then(REFUSED)
        await gallery.turns()
        deployment = gallery.process.deployment
        await upload(deployment, A, "a.png", _bytes("cat"), ReverseImagePolicy.AUTO)
        await gallery.turns()
        newest = await gallery.newest()
        again = await upload(deployment, A, "a.png", _bytes("cat"), ReverseImagePolicy.FORBID)
        assert again.job is not None
        assert (again.job.revision, again.job.error) == (1, REFUSED.diagnosis)
        assert await gallery.newest() == newest


async def _bytes(name: str) -> AsyncIterator[bytes]:
    yield name.encode()

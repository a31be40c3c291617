"""Uploads and deletions ask the operation policy, and give back what came to nothing."""

from collections.abc import AsyncIterator

import pytest
from attrs import define

from imgproc_adapters.memory import ManualClock, MemoryStore, MemoryUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.factories import new_id
from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_adapters.testing.models import ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy, Reservation
from imgproc_adapters.testing.seed import A
from imgproc_adapters.testing.view import View, memory_view
from imgproc_domain.errors import CommitOutcomeUnknown, DatabaseUnavailable, MemeNotFound, OperationDenied
from imgproc_domain.ids import MemeId
from imgproc_domain.policy import Decision, DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.scope import Scope
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.edit import delete_meme, replace_picture
from imgproc_domain.usecases.ingest import Uploaded, upload
from imgproc_domain.usecases.recover import flush_releases

UPLOAD = Operation.IMAGE_UPLOAD
DELETE = Operation.IMAGE_DELETE


class Site:
    """A library under a policy."""

    def __init__(self, policy: RememberingPolicy | None = None) -> None:
        self.store, self.clock, self.policy = MemoryStore(), ManualClock(), policy or RememberingPolicy()
        self.uow = FaultyUnitOfWork(MemoryUnitOfWork(self.store, self.clock))
        self.read = 0
        self.deployment = Deployment(
            uow=self.uow,
            blobs=NameBlobs(),
            decoder=ScriptedDecoder(),
            visual=ScriptedVisualModel(),
            agent=ScriptedAgent(),
            text=ScriptedTextModel(),
            policy=self.policy,
            ids=SystemIds(),
            observer=RecordingObserver(),
        )

    async def upload(self, content: str = "cat") -> Uploaded:
        return await upload(self.deployment, A, "a.png", self.bytes(content), ReverseImagePolicy.FORBID)

    async def bytes(self, content: str) -> AsyncIterator[bytes]:
        self.read += 1
        yield content.encode()

    @property
    def view(self) -> View:
        return memory_view(self.store, A, self.clock.now())

    def states(self, operation: Operation) -> list[Reservation]:
        return [state for (_, of, _), state in self.policy.known.items() if of is operation]


async def test_an_upload_spends_one_unit_and_a_duplicate_none() -> None:
    site = Site()
    first, second = await site.upload(), await site.upload()
    assert first.meme == second.meme
    assert site.states(UPLOAD) == [Reservation.COMMITTED, Reservation.RELEASED]


async def test_a_replacement_is_an_upload() -> None:
    site = Site()
    meme = (await site.upload()).meme
    await replace_picture(site.deployment, A, meme.meme_id, None, site.bytes("dog"))
    assert site.states(UPLOAD) == [Reservation.COMMITTED] * 2
    site.policy.denying, site.policy.denies = True, (UPLOAD,)
    with pytest.raises(OperationDenied):
        await replace_picture(site.deployment, A, meme.meme_id, None, site.bytes("owl"))
    (kept,) = site.view.memes
    assert kept.picture.byte_size == len("dog")


async def test_a_denied_upload_is_not_even_read_and_keeps_nothing() -> None:
    site = Site(RememberingPolicy(denying=True, denies=(UPLOAD,)))
    with pytest.raises(OperationDenied) as denied:
        await site.upload()
    assert denied.value.code == "operation_limit_exceeded"
    assert (site.read, site.view.memes, site.policy.known) == (0, [], {})


async def test_a_denied_deletion_leaves_the_picture() -> None:
    site = Site()
    meme = (await site.upload()).meme
    site.policy.denying, site.policy.denies = True, (DELETE,)
    with pytest.raises(OperationDenied):
        await delete_meme(site.deployment, A, meme.meme_id)
    assert all(row.exists for row in site.view.memes)
    site.policy.denying = False
    await delete_meme(site.deployment, A, meme.meme_id)
    assert not any(row.exists for row in site.view.memes)
    assert site.states(DELETE) == [Reservation.COMMITTED]


async def test_deleting_what_is_not_there_costs_nothing() -> None:
    site = Site()
    with pytest.raises(MemeNotFound):
        await delete_meme(site.deployment, A, MemeId(new_id()))
    assert site.states(DELETE) == [Reservation.RELEASED]


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.ROLLED_BACK])
async def test_an_upload_that_certainly_stored_nothing_costs_nothing(fault: Fault) -> None:
    site = Site()
    site.uow.plan(fault)
    with pytest.raises(DatabaseUnavailable):
        await site.upload()
    assert site.states(UPLOAD) == [Reservation.RELEASED]


@pytest.mark.parametrize("fault", [Fault.COMMIT_LOST, Fault.REPLY_LOST])
async def test_an_upload_that_may_have_been_stored_counts(fault: Fault) -> None:
    site = Site()
    site.uow.plan(fault)
    with pytest.raises(CommitOutcomeUnknown):
        await site.upload()
    assert site.states(UPLOAD) == [Reservation.COMMITTED]


@define(eq=False)
class FlakyPolicy(RememberingPolicy):
    """Whose answers get lost on the way, and which may be away for a release."""

    mute: bool = True
    away: bool = True

    async def acquire(self, request: OperationRequest) -> Decision:
        decision = await super().acquire(request)
        return Denied(DenialReason.UNAVAILABLE, "no answer in time") if self.mute else decision

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        if self.away:
            return Denied(DenialReason.UNAVAILABLE, "not there")
        return await super().commit(request, reservation)

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        return not self.away and await super().release(scope, operation, logical_request_key)


async def test_what_a_lost_answer_may_have_reserved_is_given_back_through_the_outbox() -> None:
    policy = FlakyPolicy()
    site = Site(policy)
    with pytest.raises(OperationDenied) as denied:
        await site.upload()
    assert denied.value.code == "operation_policy_unavailable"
    assert site.states(UPLOAD) == [Reservation.RESERVED]
    policy.away = False
    assert await flush_releases(site.deployment, A, 10) == 1
    assert site.states(UPLOAD) == [Reservation.RELEASED]


async def test_an_upload_that_was_stored_stands_even_if_nobody_takes_its_commit() -> None:
    site = Site(FlakyPolicy(mute=False))
    assert (await site.upload()).meme.exists
    assert site.states(UPLOAD) == [Reservation.RESERVED]


async def test_a_policy_with_a_bug_denies() -> None:
    class Broken(RememberingPolicy):
        async def probe(self, scope: Scope, operation: Operation) -> Denied | None:
            raise RuntimeError("a bug of the host's")

    site = Site(Broken())
    with pytest.raises(OperationDenied) as denied:
        await site.upload()
    assert denied.value.code == "operation_policy_unavailable"

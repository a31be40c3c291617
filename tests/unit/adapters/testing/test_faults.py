"""A faulty unit of work says what a database would have said."""

import pytest

from imgproc_adapters.memory import ManualClock, MemoryStore, MemoryUnitOfWork
from imgproc_adapters.testing.factories import make_meme
from imgproc_adapters.testing.faults import Fault, FaultyUnitOfWork
from imgproc_domain.errors import CommitOutcomeUnknown, DatabaseUnavailable
from imgproc_domain.scope import LOCAL


@pytest.mark.parametrize(
    ("fault", "error", "kept"),
    [
        (Fault.REFUSED, DatabaseUnavailable, 0),
        (Fault.ROLLED_BACK, DatabaseUnavailable, 0),
        (Fault.REPLY_LOST, CommitOutcomeUnknown, 1),
        (Fault.COMMIT_LOST, CommitOutcomeUnknown, 0),
    ],
)
async def test_a_planned_fault_hits_one_transaction(fault: Fault, error: type[Exception], kept: int) -> None:
    uow = FaultyUnitOfWork(MemoryUnitOfWork(MemoryStore(), ManualClock()))
    uow.plan(Fault.NONE, fault)
    async with uow.begin(LOCAL) as tx:
        assert await tx.memes.count() == 0
    with pytest.raises(error) as raised:
        async with uow.begin(LOCAL) as tx:
            await tx.memes.add(make_meme())
    assert raised.type is error
    async with uow.begin(LOCAL) as tx:
        assert await tx.memes.count() == kept


async def test_an_error_of_the_block_passes_through() -> None:
    uow = FaultyUnitOfWork(MemoryUnitOfWork(MemoryStore(), ManualClock()))
    uow.plan(Fault.REPLY_LOST)
    with pytest.raises(ZeroDivisionError):
        async with uow.begin(LOCAL):
            raise ZeroDivisionError

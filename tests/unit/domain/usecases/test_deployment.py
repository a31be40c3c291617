"""A transaction that came second reads and decides again, but not for ever."""

import pytest

from imgproc_domain.errors import Conflict, DatabaseUnavailable
from imgproc_domain.usecases.deployment import decided_again


class Work:
    """Fails with the given errors, in order, before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.runs = 0

    async def __call__(self) -> int:
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.runs


@pytest.mark.parametrize("conflicts", range(5))
async def test_a_transaction_is_decided_again_while_somebody_else_was_first(conflicts: int) -> None:
    work = Work(*[Conflict("somebody else was first")] * conflicts)
    assert await decided_again(work) == conflicts + 1


async def test_a_transaction_that_is_never_first_gives_up() -> None:
    work = Work(*[Conflict("somebody else was first")] * 100)
    with pytest.raises(Conflict):
        await decided_again(work)
    assert work.runs == 5


async def test_no_other_error_is_tried_again() -> None:
    work = Work(DatabaseUnavailable("no answer"))
    with pytest.raises(DatabaseUnavailable):
        await decided_again(work)
    assert work.runs == 1

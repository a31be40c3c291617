"""A grant is spent once, given back only unspent, and never comes back."""

from collections.abc import Callable
from datetime import datetime

import pytest
from tests.unit.domain.build import NOW, grant_in

from imgproc_domain import grant as grants
from imgproc_domain.errors import IllegalTransition
from imgproc_domain.grant import EDGES, Grant, GrantStatus

STEPS: dict[GrantStatus, Callable[[Grant, datetime], Grant]] = {
    GrantStatus.COMMITTED: grants.commit,
    GrantStatus.RELEASED: grants.release,
    GrantStatus.UNKNOWN: grants.lose,
}


@pytest.mark.parametrize("target", STEPS)
@pytest.mark.parametrize("source", GrantStatus)
def test_a_step_is_taken_exactly_where_the_table_has_an_edge(source: GrantStatus, target: GrantStatus) -> None:
    before = grant_in(source)
    if target not in EDGES[source]:
        with pytest.raises(IllegalTransition):
            STEPS[target](before, NOW)
        return
    after = STEPS[target](before, NOW)
    assert (after.status, after.updated_at) == (target, NOW)
    assert (after.grant_id, after.task_id, after.created_at) == (before.grant_id, before.task_id, before.created_at)


def test_no_edge_of_the_table_is_without_its_function() -> None:
    assert {target for targets in EDGES.values() for target in targets} == STEPS.keys()


@pytest.mark.parametrize("spent", [GrantStatus.COMMITTED, GrantStatus.UNKNOWN])
def test_a_grant_under_which_a_call_may_have_been_made_is_never_given_back(spent: GrantStatus) -> None:
    with pytest.raises(IllegalTransition):
        grants.release(grant_in(spent), NOW)


@pytest.mark.parametrize("target", STEPS)
@pytest.mark.parametrize("over", [GrantStatus.RELEASED, GrantStatus.UNKNOWN])
def test_a_grant_that_was_given_back_or_lost_is_never_used_again(over: GrantStatus, target: GrantStatus) -> None:
    with pytest.raises(IllegalTransition):
        STEPS[target](grant_in(over), NOW)

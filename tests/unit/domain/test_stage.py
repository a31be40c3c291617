"""The three stages, their tasks and lanes, and who owns which."""

import pytest

from imgproc_domain.errors import InvalidReverseImagePolicy
from imgproc_domain.stage import (
    IMAGE_TASK_TYPES,
    LANE_OF,
    MAINTENANCE_TASK_TYPES,
    STAGE_OF,
    STAGES,
    TASK_TYPE_OF,
    Lane,
    ReverseImagePolicy,
    Stage,
    TaskType,
    parse_policy,
)


def test_the_stages_stand_in_their_one_order() -> None:
    assert STAGES == (Stage.VISUAL, Stage.AGENT, Stage.TEXT)
    assert set(STAGES) == set(Stage)


def test_every_stage_has_one_task_type_and_back() -> None:
    assert {STAGE_OF[TASK_TYPE_OF[stage]] for stage in Stage} == set(Stage)
    assert set(TASK_TYPE_OF.values()) == IMAGE_TASK_TYPES


def test_every_task_type_is_owned_by_exactly_one_worker() -> None:
    assert set(TaskType) == IMAGE_TASK_TYPES | MAINTENANCE_TASK_TYPES
    assert not IMAGE_TASK_TYPES & MAINTENANCE_TASK_TYPES
    assert {TaskType.CACHE} == MAINTENANCE_TASK_TYPES


def test_no_two_task_types_share_a_lane() -> None:
    assert set(LANE_OF) == set(TaskType)
    assert set(LANE_OF.values()) == set(Lane)


@pytest.mark.parametrize(
    ("raw", "policy"),
    [
        (None, ReverseImagePolicy.FORBID),
        ("forbid", ReverseImagePolicy.FORBID),
        ("auto", ReverseImagePolicy.AUTO),
        (ReverseImagePolicy.AUTO, ReverseImagePolicy.AUTO),
    ],
)
def test_a_missing_policy_is_forbid(raw: object, policy: ReverseImagePolicy) -> None:
    assert parse_policy(raw) is policy


@pytest.mark.parametrize("raw", ["", "Auto", "FORBID", " auto", "allow", 0, 1, True, False, [], {}, b"auto"])
def test_nothing_else_is_a_policy(raw: object) -> None:
    with pytest.raises(InvalidReverseImagePolicy, match="'forbid' or 'auto'"):
        parse_policy(raw)

"""The three stages, always in this order, and what each is made of."""

from enum import StrEnum
from typing import Final

from imgproc_domain.errors import InvalidReverseImagePolicy


class Stage(StrEnum):
    VISUAL = "visual"
    AGENT = "agent"
    TEXT = "text_embedding"


class Lane(StrEnum):
    """A bounded execution budget. `MAINTENANCE` belongs to the general task worker."""

    VISUAL = "visual"
    AGENT = "agent"
    TEXT = "text"
    MAINTENANCE = "maintenance"


class TaskType(StrEnum):
    VISUAL = "visual_embedding_generation"
    CONTEXT = "meme_context_generation"
    TEXT = "text_embedding_generation"
    CACHE = "cache_generation"


class ReverseImagePolicy(StrEnum):
    """Whether the agent may show the picture to a reverse image search."""

    FORBID = "forbid"
    AUTO = "auto"


STAGES: Final = (Stage.VISUAL, Stage.AGENT, Stage.TEXT)

TASK_TYPE_OF: Final = {Stage.VISUAL: TaskType.VISUAL, Stage.AGENT: TaskType.CONTEXT, Stage.TEXT: TaskType.TEXT}
STAGE_OF: Final = {task_type: stage for stage, task_type in TASK_TYPE_OF.items()}

LANE_OF: Final = {
    TaskType.VISUAL: Lane.VISUAL,
    TaskType.CONTEXT: Lane.AGENT,
    TaskType.TEXT: Lane.TEXT,
    TaskType.CACHE: Lane.MAINTENANCE,
}

IMAGE_TASK_TYPES: Final = frozenset(STAGE_OF)
"""Scanned, claimed, expired and cancelled by `ImageProcessingWorker` alone."""

MAINTENANCE_TASK_TYPES: Final = frozenset(TaskType) - IMAGE_TASK_TYPES


def parse_policy(raw: object) -> ReverseImagePolicy:
    """Normalize a policy from outside: missing (None) is ``forbid``.

    Raises:
        InvalidReverseImagePolicy: for anything but ``forbid`` and ``auto``.
    """
    if raw is None:
        return ReverseImagePolicy.FORBID
    if isinstance(raw, str) and raw in tuple(ReverseImagePolicy):
        return ReverseImagePolicy(raw)
    raise InvalidReverseImagePolicy("reverse_image_policy is 'forbid' or 'auto'")

"""What went wrong, in bounded words: a stable code and a message for a person."""

from enum import StrEnum
from typing import Final

from attrs import field, frozen

from imgproc_domain.text import clean

DIAGNOSIS_LIMIT: Final = 500


class ErrorCode(StrEnum):
    """Stable codes of task, stage and job errors."""

    TARGET_CHANGED = "target_changed"
    CONFIGURATION_CHANGED = "configuration_changed"
    CONTEXT_CHANGED = "context_changed"
    UNKNOWN_EXECUTION = "unknown_execution"
    LEASE_LOST = "lease_lost"
    LEASE_EXHAUSTED = "lease_exhausted"
    GIVEN_BACK = "given_back"
    VISUAL_MODEL_NOT_CONFIGURED = "visual_model_not_configured"
    VISUAL_FAILED = "visual_failed"
    AGENT_NOT_CONFIGURED = "agent_not_configured"
    AGENT_FAILED = "agent_failed"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_OUTPUT_INVALID = "agent_output_invalid"
    AGENT_OUTPUT_TRUNCATED = "agent_output_truncated"
    AGENT_REFUSED = "agent_refused"
    EMBEDDING_NOT_CONFIGURED = "embedding_not_configured"
    EMBEDDING_FAILED = "embedding_failed"
    EMBEDDING_DIMENSION_MISMATCH = "embedding_dimension_mismatch"
    EMBEDDING_INVALID = "embedding_invalid"
    NO_EMBEDDABLE_TEXT = "no_embeddable_text"
    MAINTENANCE_FAILED = "maintenance_failed"
    OPERATION_FORBIDDEN = "operation_forbidden"
    OPERATION_LIMIT_EXCEEDED = "operation_limit_exceeded"
    OPERATION_POLICY_UNAVAILABLE = "operation_policy_unavailable"


def bounded(raw: str) -> str:
    """Return ``raw`` cleaned of control characters and cut at 500 characters."""
    return clean(raw, DIAGNOSIS_LIMIT)


@frozen
class Diagnosis:
    """A bounded, storable explanation. The message is cleaned of control characters and cut at 500 characters."""

    code: ErrorCode
    message: str = field(converter=bounded)

"""What went wrong, in bounded words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_domain.diagnosis import DIAGNOSIS_LIMIT, Diagnosis, ErrorCode, bounded

CODES = {
    *("target_changed", "configuration_changed", "context_changed", "unknown_execution"),
    *("lease_lost", "lease_exhausted", "given_back"),
    *("visual_model_not_configured", "visual_failed"),
    *("agent_not_configured", "agent_failed", "agent_timeout", "agent_refused"),
    *("agent_output_invalid", "agent_output_truncated"),
    *("embedding_not_configured", "embedding_failed", "embedding_dimension_mismatch", "embedding_invalid"),
    *("no_embeddable_text", "maintenance_failed"),
    *("operation_forbidden", "operation_limit_exceeded", "operation_policy_unavailable"),
}


def test_the_codes_are_the_promised_ones_and_never_change() -> None:
    assert {code.value for code in ErrorCode} == CODES


@given(st.text(st.characters(), max_size=2_000))
def test_a_message_is_bounded_and_storable(raw: str) -> None:
    message = Diagnosis(ErrorCode.AGENT_FAILED, raw).message
    assert len(message) <= DIAGNOSIS_LIMIT
    assert message == bounded(raw)
    assert not {unicodedata.category(c) for c in message if c not in "\n\t"} & {"Cc", "Cs"}


@pytest.mark.parametrize(("length", "kept"), [(500, 500), (501, 500), (100_000, 500)])
def test_a_message_is_cut_at_five_hundred_characters(length: int, kept: int) -> None:
    message = Diagnosis(ErrorCode.AGENT_FAILED, "x" * length).message
    assert len(message) == kept
    assert message.endswith("…") is (length > kept)

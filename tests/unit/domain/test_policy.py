"""The vocabulary between pipeline and operation policy."""

import re
from typing import Any

import pytest
from attrs import evolve, fields
from tests.unit.domain.build import NOW

from imgproc_adapters.testing.factories import make_request
from imgproc_domain.diagnosis import DIAGNOSIS_LIMIT, ErrorCode
from imgproc_domain.policy import DenialReason, Denied, Operation, OperationRequest
from imgproc_domain.scope import Scope

REQUEST = make_request()
OTHER: dict[str, Any] = {
    "scope": Scope("another"),
    "operation": Operation.IMAGE_UPLOAD,
    "logical_request_key": "agent:2",
    "resource": "meme-2",
    "task": "another task",
    "source": "another source",
    "input_digest": "another digest",
    "units": 2,
}


def test_the_same_request_has_the_same_fingerprint() -> None:
    assert evolve(REQUEST).fingerprint == REQUEST.fingerprint
    assert re.fullmatch(r"[0-9a-f]{64}", REQUEST.fingerprint)


def test_these_tests_know_every_field() -> None:
    assert OTHER.keys() == {field.name for field in fields(OperationRequest)}


@pytest.mark.parametrize("name", OTHER)
def test_a_request_that_differs_in_one_field_has_another_fingerprint(name: str) -> None:
    assert evolve(REQUEST, **{name: OTHER[name]}).fingerprint != REQUEST.fingerprint


def test_values_that_change_places_make_another_fingerprint() -> None:
    swapped = evolve(REQUEST, resource=REQUEST.task, task=REQUEST.resource)
    assert swapped.fingerprint != REQUEST.fingerprint


@pytest.mark.parametrize("reason", DenialReason)
def test_every_reason_of_a_denial_is_an_error_code_of_the_same_name(reason: DenialReason) -> None:
    denied = Denied(reason, "not today", NOW)
    assert denied.diagnosis.code.value == reason.value
    assert denied.diagnosis.message == "not today"


def test_the_reasons_of_a_denial_are_these_three() -> None:
    assert {ErrorCode(reason.value) for reason in DenialReason} == {
        ErrorCode.OPERATION_FORBIDDEN,
        ErrorCode.OPERATION_LIMIT_EXCEEDED,
        ErrorCode.OPERATION_POLICY_UNAVAILABLE,
    }


def test_what_a_policy_says_is_cleaned_and_bounded() -> None:
    denied = Denied(DenialReason.FORBIDDEN, "no\0\x1b" + "x" * 10_000)
    assert denied.message.startswith("nox")
    assert len(denied.message) == DIAGNOSIS_LIMIT

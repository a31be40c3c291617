"""The table of errors, identifier by identifier, as the HTTP contract lists them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from imgproc_adapters.http import errors
from imgproc_adapters.http.errors import HttpError, problem_of
from imgproc_adapters.http.examples import ERRORS
from imgproc_domain import errors as domain
from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.errors import ImgprocError, OperationDenied
from imgproc_domain.vector import InvalidVector

CONTRACT = [
    (domain.InvalidQuery, "invalid_query", 400),
    (domain.InvalidReverseImagePolicy, "invalid_reverse_image_policy", 400),
    (errors.UnknownField, "unknown_field", 400),
    (errors.Unauthenticated, "unauthenticated", 401),
    (domain.InvalidValue, "validation_error", 422),
    (domain.UnsupportedMedia, "unsupported_media", 415),
    (errors.UnsupportedBody, "unsupported_media", 415),
    (domain.ImageCorrupt, "image_corrupt", 422),
    (domain.ImageTooLarge, "image_too_large", 413),
    (domain.TooManyPixels, "too_many_pixels", 422),
    (domain.TooManyFrames, "too_many_frames", 422),
    (errors.PayloadTooLarge, "payload_too_large", 413),
    (errors.TooManyFiles, "too_many_files", 413),
    (domain.InsufficientStorage, "insufficient_storage", 507),
    (domain.MemeNotFound, "meme_not_found", 404),
    (domain.TaskNotFound, "task_not_found", 404),
    (domain.GenerationPolicyConflict, "generation_policy_conflict", 409),
    (domain.ContextConflict, "context_conflict", 409),
    (domain.JobNotRetryable, "job_not_retryable", 409),
    (domain.ExecutionNotUnknown, "execution_not_unknown", 409),
    (domain.ExecutionAlreadyResolved, "execution_already_resolved", 409),
    (domain.CallMayBeRunning, "call_may_be_running", 409),
    (domain.CacheNotReady, "cache_not_ready", 503),
    (domain.DatabaseUnavailable, "database_unavailable", 503),
    (domain.CommitOutcomeUnknown, "database_unavailable", 503),
    (domain.ConfigurationUnreadable, "database_unavailable", 503),
    (domain.ModelNotConfigured, "model_not_configured", 503),
    (domain.Conflict, "conflict", 409),
    (InvalidVector, "embedding_invalid", 422),
    (errors.CrossSiteRequest, "cross_site_request", 403),
    (errors.UnknownHost, "unknown_host", 403),
    (errors.NothingHere, "not_found", 404),
    (errors.NotReady, "not_ready", 503),
    (errors.ClientGone, "client_gone", 400),
]


@pytest.mark.parametrize(("kind", "code", "status"), CONTRACT, ids=lambda value: getattr(value, "__name__", str(value)))
def test_an_error_has_its_identifier_and_status(kind: type[ImgprocError], code: str, status: int) -> None:
    problem = problem_of(kind("what went wrong"))
    assert problem is not None
    assert (problem.code, problem.status) == (code, status)
    assert problem.body == {"error": code, "message": "what went wrong"}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.OPERATION_FORBIDDEN, 403),
        (ErrorCode.OPERATION_LIMIT_EXCEEDED, 429),
        (ErrorCode.OPERATION_POLICY_UNAVAILABLE, 503),
    ],
)
def test_a_denial_is_named_by_its_reason(code: ErrorCode, status: int) -> None:
    problem = problem_of(OperationDenied(code.value, "not today", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
    assert problem is not None
    assert (problem.code, problem.status) == (code.value, status)
    assert problem.details == {"retry_at": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize("error", [domain.StaleClaim("late"), ImgprocError("?"), OperationDenied("whim", "no")])
def test_what_no_client_should_meet_is_a_bug(error: ImgprocError) -> None:
    assert problem_of(error) is None


def subclasses(kind: type[ImgprocError]) -> set[type[ImgprocError]]:
    return {found for sub in kind.__subclasses__() for found in (sub, *subclasses(sub))}


def test_every_error_of_the_domain_and_of_this_interface_has_a_status() -> None:
    ours = {kind for kind in subclasses(ImgprocError) if kind.__module__ in (domain.__name__, errors.__name__)}
    without = {kind for kind in ours if not any(base in errors.STATUS for base in kind.__mro__)}
    assert without == {HttpError, OperationDenied, domain.StaleClaim}


def test_every_example_is_an_error_that_is_answered() -> None:
    assert all(problem_of(error) is not None for error in ERRORS)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (ErrorCode.AGENT_FAILED, "agent_failed"),
        ((1, 2.5, True), [1, 2.5, True]),
        ([{"a": None}], [{"a": None}]),
        ({"a": {"b": UUID(int=7)}}, {"a": {"b": "00000000-0000-0000-0000-000000000007"}}),
    ],
)
def test_details_become_plain_values(given: Any, shown: Any) -> None:
    problem = problem_of(domain.InvalidValue("x", value=given, nothing=None))
    assert problem is not None
    assert problem.body["details"] == {"value": shown}

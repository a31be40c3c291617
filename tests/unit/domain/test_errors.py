"""Errors show a stable identifier and a message that can be stored and shown."""

import pytest
from tests.unit.domain.build import NOW

from imgproc_domain import errors
from imgproc_domain.errors import (
    MESSAGE_LIMIT,
    CommitOutcomeUnknown,
    DatabaseUnavailable,
    IllegalTransition,
    ImgprocError,
    InvalidQuery,
    InvalidValue,
    MemeNotFound,
    OperationDenied,
    PictureRejected,
)

CODES = {
    errors.InvalidValue: "validation_error",
    errors.InvalidQuery: "invalid_query",
    errors.InvalidReverseImagePolicy: "invalid_reverse_image_policy",
    errors.MemeNotFound: "meme_not_found",
    errors.TaskNotFound: "task_not_found",
    errors.GenerationPolicyConflict: "generation_policy_conflict",
    errors.JobNotRetryable: "job_not_retryable",
    errors.ExecutionNotUnknown: "execution_not_unknown",
    errors.ExecutionAlreadyResolved: "execution_already_resolved",
    errors.CallMayBeRunning: "call_may_be_running",
    errors.CacheNotReady: "cache_not_ready",
    errors.UnsupportedMedia: "unsupported_media",
    errors.ImageCorrupt: "image_corrupt",
    errors.ImageTooLarge: "image_too_large",
    errors.TooManyPixels: "too_many_pixels",
    errors.TooManyFrames: "too_many_frames",
    errors.InsufficientStorage: "insufficient_storage",
    errors.DatabaseUnavailable: "database_unavailable",
}


@pytest.mark.parametrize("error", CODES, ids=lambda error: error.__name__)
def test_an_error_shows_its_stable_identifier(error: type[ImgprocError]) -> None:
    assert error.code == CODES[error]
    assert error("something").code == CODES[error]


def test_no_two_errors_share_an_identifier() -> None:
    assert len(set(CODES.values())) == len(CODES)


def test_a_message_is_cleaned_and_bounded() -> None:
    error = MemeNotFound("no\0 such\x1b\ud800 picture " + "x" * 10_000, meme_id="1")
    assert error.message.startswith("no such picture x")
    assert len(error.message) == MESSAGE_LIMIT
    assert error.details == {"meme_id": "1"}


def test_an_error_without_details_has_none() -> None:
    assert MemeNotFound("gone").details == {}


def test_a_parse_error_is_a_value_error_too() -> None:
    assert issubclass(InvalidQuery, InvalidValue)
    assert issubclass(InvalidValue, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        errors.UnsupportedMedia,
        errors.ImageCorrupt,
        errors.ImageTooLarge,
        errors.TooManyPixels,
        errors.TooManyFrames,
    ],
)
def test_every_refusal_of_a_picture_can_be_caught_as_one(error: type[ImgprocError]) -> None:
    assert issubclass(error, PictureRejected)


def test_a_lost_commit_is_told_from_a_database_that_was_never_reached() -> None:
    assert issubclass(CommitOutcomeUnknown, DatabaseUnavailable)
    assert CommitOutcomeUnknown.code == DatabaseUnavailable.code


def test_an_illegal_transition_is_a_bug_and_no_error_to_handle() -> None:
    assert not issubclass(IllegalTransition, ImgprocError)
    assert issubclass(IllegalTransition, AssertionError)


def test_a_denied_operation_keeps_reason_and_hint() -> None:
    denied = OperationDenied("operation_limit_exceeded", "come back tomorrow", NOW)
    assert (denied.reason, denied.retry_at) == ("operation_limit_exceeded", NOW)


def test_the_identifier_of_a_denied_operation_is_its_reason() -> None:
    assert OperationDenied("operation_limit_exceeded", "come back tomorrow").code == "operation_limit_exceeded"


def test_an_error_that_is_printed_shows_the_cleaned_message() -> None:
    error = MemeNotFound("no\0 such picture" + "x" * 10_000)
    assert str(error) == error.message

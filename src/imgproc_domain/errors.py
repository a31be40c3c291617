"""One small tree of exceptions. A class is a decision its caller makes; `code` is the stable identifier it shows.

Expected outcomes (a denied grant, a failed model) are values, not exceptions: see `outcome` and `policy`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from imgproc_domain.text import clean

MESSAGE_LIMIT: Final = 500


class ImgprocError(Exception):
    """Base of every error that a caller of imgproc is meant to handle.

    `code` never changes for the same cause; `message` is for a person and may; `details` holds only plain values.
    """

    code: str = "internal_error"

    def __init__(self, message: str, **details: object) -> None:
        self.message = clean(message, MESSAGE_LIMIT)
        super().__init__(self.message)
        self.details: Mapping[str, object] = details


class InvalidValue(ImgprocError, ValueError):
    """A value could not be parsed at the edge."""

    code = "validation_error"


class InvalidQuery(InvalidValue):
    """The search text is blank or too long."""

    code = "invalid_query"


class InvalidReverseImagePolicy(InvalidValue):
    """The policy is neither ``forbid`` nor ``auto``."""

    code = "invalid_reverse_image_policy"


class MemeNotFound(ImgprocError):
    """No such meme in this scope; a foreign id answers exactly like an unknown one."""

    code = "meme_not_found"


class TaskNotFound(ImgprocError):
    """No such task or job in this scope; a foreign id answers exactly like an unknown one."""

    code = "task_not_found"


class GenerationPolicyConflict(ImgprocError):
    """The meme already has an active job under another reverse-image policy."""

    code = "generation_policy_conflict"


class ContextConflict(ImgprocError):
    """The context changed since the caller read it; ``details`` has its current revision."""

    code = "context_conflict"


class JobNotRetryable(ImgprocError):
    """Only a failed, blocked or unknown job can be retried."""

    code = "job_not_retryable"


class ExecutionNotUnknown(ImgprocError):
    """Only an execution that ended as unknown can be looked at, and resolved, as one."""

    code = "execution_not_unknown"


class ExecutionAlreadyResolved(ImgprocError):
    """The unknown execution has its resolution, which is history and stays as it is."""

    code = "execution_already_resolved"


class CallMayBeRunning(ImgprocError):
    """The hard deadline of the call is still to come, and nobody vouches for its end; ``details`` has the deadline."""

    code = "call_may_be_running"


class CacheNotReady(ImgprocError):
    """Nothing in this scope can be found yet."""

    code = "cache_not_ready"


class MigrationConflict(ImgprocError):
    """The scope's search is not in the state that this step begins from; ``details`` has its mode and epoch."""

    code = "search_migration_conflict"


class SearchIncomplete(ImgprocError):
    """A switch would lose pictures; ``details`` says how many, in which space, and names the first of them."""

    code = "search_incomplete"


class LegacyNotReady(ImgprocError):
    """The scope has no complete generation that its searches could fall back to."""

    code = "legacy_not_ready"


class PictureRejected(ImgprocError):
    """The uploaded bytes are no picture that imgproc accepts. Each subclass names one reason."""


class UnsupportedMedia(PictureRejected):
    code = "unsupported_media"


class ImageCorrupt(PictureRejected):
    code = "image_corrupt"


class ImageTooLarge(PictureRejected):
    code = "image_too_large"


class TooManyPixels(PictureRejected):
    code = "too_many_pixels"


class TooManyFrames(PictureRejected):
    code = "too_many_frames"


class OperationDenied(ImgprocError):
    """The operation policy refused, for one of three stable reasons given as `code`."""

    def __init__(self, reason: str, message: str, retry_at: datetime | None = None) -> None:
        super().__init__(message, retry_at=retry_at)
        self.code = self.reason = reason
        self.retry_at = retry_at


class InsufficientStorage(ImgprocError):
    """The blob store has no room for the bytes."""

    code = "insufficient_storage"


class ModelError(ImgprocError):
    """A model gave no vector for a question. Each subclass names one reason."""


class ModelNotConfigured(ModelError):
    """A model's package, file or key is missing; the message says which and how to get it."""

    code = "model_not_configured"


class ModelDeclined(ModelError):
    """The model can do nothing with this picture or text, and would not the next time: ``details`` has its code."""

    code = "model_declined"


class ModelUnavailable(ModelError):
    """The model failed this time; ``retry_after`` is when it says it can be asked again, if it says so."""

    code = "model_unavailable"

    def __init__(self, message: str, retry_after: timedelta | None = None, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class ModelTimeout(ModelError):
    """The model has not answered for as long as a question may wait, or a call of it may take."""

    code = "model_timeout"


class DatabaseUnavailable(ImgprocError):
    """The database did not answer, or ended the transaction; nothing of the transaction was kept."""

    code = "database_unavailable"


class CommitOutcomeUnknown(DatabaseUnavailable):
    """The connection ended while COMMIT was on its way: the transaction may or may not have been kept."""


class ConfigurationUnreadable(DatabaseUnavailable):
    """Another version announced the processing configuration in force, in a form that this one cannot read."""


class Conflict(ImgprocError):
    """Somebody else was first: a unique key or a serialization check refused. Read again, decide again."""

    code = "conflict"


class StaleClaim(ImgprocError):
    """A write-back whose claim is no longer current. Nothing was written."""

    code = "stale_claim"


class IllegalTransition(AssertionError):
    """A state machine was asked for an edge it does not have: a bug in the caller."""

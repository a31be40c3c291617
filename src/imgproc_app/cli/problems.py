"""How an error is told to a person: what went wrong, under which stable code, and what to do."""

from collections.abc import Mapping
from typing import Final

from imgproc_adapters.models.host import ModelCallFailed
from imgproc_adapters.postgres.embedded import EmbeddedPostgresError
from imgproc_app.cli.output import one_line
from imgproc_domain.errors import (
    CacheNotReady,
    DatabaseUnavailable,
    ImgprocError,
    ModelNotConfigured,
    ModelTimeout,
    ModelUnavailable,
    TaskNotFound,
)

_LONGEST: Final = 1_000

_HINTS: Final[Mapping[type[Exception], str]] = {
    DatabaseUnavailable: "is the server up? 'imgproc doctor' checks the connection",
    EmbeddedPostgresError: "'imgproc doctor' checks the embedded server; --dsn uses another one",
    ModelNotConfigured: (
        "'imgproc doctor' checks the models of these settings; another one that a library is searched with belongs in"
        " IMGPROC_MORE_TEXT_MODELS"
    ),
    ModelCallFailed: "'imgproc doctor' checks the models",
    ModelUnavailable: "try again; 'imgproc doctor' checks the models",
    ModelTimeout: "try again, or wait longer with IMGPROC_ANSWER_SECONDS; 'imgproc doctor' checks the models",
    CacheNotReady: "import pictures with 'imgproc import FOLDER'; 'imgproc status' shows how far they are",
    TaskNotFound: "'imgproc status' lists the jobs that did not succeed",
}


def explain(error: Exception) -> tuple[str, str, str | None]:
    """Return code, message and hint, if there is one."""
    hint = next((text for kind, text in _HINTS.items() if isinstance(error, kind)), None)
    # notes are what somebody on the way knew to add
    hint = "; ".join((*([hint] if hint else ()), *getattr(error, "__notes__", ()))) or None
    match error:
        case ImgprocError():
            return error.code, one_line(error.message, _LONGEST), hint
        case EmbeddedPostgresError():
            return "embedded_postgres_failed", one_line(in_words(error), _LONGEST), hint
        case ModelCallFailed():
            return "model_call_failed", one_line(str(error), _LONGEST), hint
        case _:
            message = f"unexpected {type(error).__name__}: {one_line(str(error))}"
            return "internal_error", message, "--log-level debug shows where; this should not happen"


def in_words(error: Exception) -> str:
    """Return an error's message; for one that only passes on the system's, that one without its number."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return str(error).replace(str(cause), f"{cause.strerror.lower()}: {cause.filename or ''}".rstrip(": "))
    return str(error)

"""From what psycopg raises to what the ports promise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors as pg

from imgproc_domain.errors import CommitOutcomeUnknown, Conflict, DatabaseUnavailable, InvalidValue

# Somebody else was first, or the database broke a tie. A missing parent row counts: it was there when it was read.
_CONFLICTS: Final = (
    pg.UniqueViolation,
    pg.ForeignKeyViolation,
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
)

# The server gave up, ended the session or is not there (or is a standby): nothing was kept, and it may be tried later.
_UNAVAILABLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.IdleInTransactionSessionTimeout,
    pg.TransactionTimeout,
    pg.ReadOnlySqlTransaction,
    pg.InFailedSqlTransaction,
)


def translate(error: BaseException) -> BaseException:
    """Return the domain's error for ``error``; whatever is a bug of ours (a refused CHECK, wrong SQL) stays as it is.

    The messages of psycopg's connection errors name host, user and database, never a password; those of refused
    values quote none of them.
    """
    match error:
        case pg.UniqueViolation():
            return Conflict(f"a row with this key exists already ({error.diag.constraint_name})")
        case pg.ForeignKeyViolation():
            return Conflict(f"a row that this one refers to does not exist ({error.diag.constraint_name})")
        case _ if isinstance(error, _CONFLICTS):
            return Conflict("the database ended the transaction in favour of another one")
        case psycopg.DataError():
            return InvalidValue(f"the database refused a value ({error.sqlstate or 'not representable'})")
        case _ if isinstance(error, _UNAVAILABLE) or _is_out_of_step(error):
            return DatabaseUnavailable(f"the database did not answer: {_reason(error)}")
        case _:
            return error


def translate_commit(error: BaseException) -> BaseException:
    """As `translate`, for an error of COMMIT: without an answer nobody knows whether the transaction was kept."""
    known = translate(error)
    if isinstance(known, DatabaseUnavailable) and not _is_refusal(error):
        return CommitOutcomeUnknown(f"the connection ended during COMMIT: {_reason(error)}")
    return known


def _is_refusal(error: BaseException) -> bool:
    """Whether the server answered, and goes on: then the transaction was rolled back. A pooler's own words are not its.

    Whatever ends a session is FATAL, and errors of the connection itself are of class 08.
    """
    return (
        isinstance(error, psycopg.Error)
        and error.diag.severity_nonlocalized == "ERROR"
        and not (error.sqlstate or "08").startswith("08")
    )


@contextmanager
def translated() -> Iterator[None]:
    """Raise the domain's error instead of psycopg's."""
    try:
        yield
    except psycopg.Error as error:
        known = translate(error)
        if known is error:
            raise
        raise known from error


def _is_out_of_step(error: BaseException) -> bool:
    """Whether psycopg itself met what no server answers, as when a pooler adds its own end to that of the server."""
    return isinstance(error, psycopg.InternalError) and error.sqlstate is None


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

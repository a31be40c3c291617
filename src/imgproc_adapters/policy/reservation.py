"""How much a scope may do, and what it is answered: the decision of the quota policy, without its database."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from attrs import field, frozen, validators

from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, OperationRequest


class Period(StrEnum):
    """A stretch of the calendar in UTC, as PostgreSQL's ``date_trunc`` names it."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@frozen
class Quota:
    """So many units a period."""

    units: int = field(validator=validators.ge(0))
    period: Period


@frozen
class Usage:
    """A quota, how much of it the present period has used, and when the next one begins."""

    quota: Quota
    used: int
    ends_at: datetime


@frozen
class Reservation:
    """What is remembered of a logical request. Without a fingerprint it was released before it was ever acquired."""

    fingerprint: str | None
    released: bool


def name_of(request: OperationRequest) -> str:
    """Return the reservation's name: the same for the same request, in every process."""
    return f"quota:{request.fingerprint}"


def remembered(request: OperationRequest, found: Reservation) -> Decision:
    """Answer a request whose key is known."""
    if found.released:
        return Denied(DenialReason.FORBIDDEN, "this request was released")
    if found.fingerprint != request.fingerprint:
        return Denied(DenialReason.FORBIDDEN, "this key belongs to another request")
    return Granted(name_of(request))


def exceeded(units: int, usages: Iterable[Usage]) -> Denied | None:
    """Say which quotas have no room for ``units``; they have it again when the last of their periods ends.

    A quota that is smaller than the request never has room: then there is no time to come back.
    """
    full = [usage for usage in usages if usage.used + units > usage.quota.units]
    if not full:
        return None
    told = "; ".join(f"{u.used} of {u.quota.units} units of this {u.quota.period} are used" for u in full)
    hopeless = any(units > usage.quota.units for usage in full)
    return Denied(DenialReason.LIMIT_EXCEEDED, told, None if hopeless else max(usage.ends_at for usage in full))

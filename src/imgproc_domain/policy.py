"""The operation policy's vocabulary: who asks for what, and how it answers."""

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from attrs import field, frozen

from imgproc_domain.diagnosis import Diagnosis, ErrorCode, bounded
from imgproc_domain.scope import Scope


class Operation(StrEnum):
    ANALYSIS_AGENT = "analysis.agent"
    REVERSE_IMAGE_SEARCH = "analysis.reverse_image_search"
    IMAGE_UPLOAD = "image.upload"
    IMAGE_DELETE = "image.delete"


class DenialReason(StrEnum):
    """The stable reasons of a block; each is an `ErrorCode` of the same name."""

    FORBIDDEN = ErrorCode.OPERATION_FORBIDDEN.value
    LIMIT_EXCEEDED = ErrorCode.OPERATION_LIMIT_EXCEEDED.value
    UNAVAILABLE = ErrorCode.OPERATION_POLICY_UNAVAILABLE.value


@frozen(slots=False)
class OperationRequest:
    """One logical request. The key makes acquire idempotent; the fingerprint says whether it is the same request."""

    scope: Scope
    operation: Operation
    logical_request_key: str
    resource: str
    task: str
    source: str
    input_digest: str
    units: int = 1

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over every field: a key that comes back with another fingerprint is refused."""
        fields = {name: value for name, value in vars(self).items() if name != "fingerprint"}
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@frozen
class Granted:
    """The policy reserved the units under ``reservation``."""

    reservation: str


@frozen
class Denied:
    """The policy refused. ``retry_at`` is a hint for people: nothing ever wakes by it."""

    reason: DenialReason
    message: str = field(default="", converter=bounded)
    retry_at: datetime | None = None

    @property
    def diagnosis(self) -> Diagnosis:
        return Diagnosis(ErrorCode(self.reason.value), self.message)


Decision = Granted | Denied

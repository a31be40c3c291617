"""An operation policy behind HTTP, in any language: the host answers four questions in JSON."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from imgproc_domain.errors import InvalidValue
from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation, OperationRequest
from imgproc_domain.scope import Scope

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_LARGEST: Final = 64 * 1024
_KEEP_ALIVE: Final = 2.0
"""Seconds. Shorter than servers keep a connection, so that none is used at the moment when it is closed."""

_UNAVAILABLE: Final = Denied(DenialReason.UNAVAILABLE, "the operation policy gave no usable answer")


class _Answer(msgspec.Struct, tag_field="decision", forbid_unknown_fields=True, frozen=True):
    pass


class _Allowed(_Answer, tag="allowed", frozen=True):
    pass


class _Released(_Answer, tag="released", frozen=True):
    pass


class _Granted(_Answer, tag="granted", frozen=True):
    # it becomes a column's value, so what a column cannot hold is refused here
    reservation: Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,200}\Z")]


class _Denied(_Answer, tag="denied", frozen=True):
    reason: DenialReason
    message: str = ""
    retry_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


_DECODER: Final = msgspec.json.Decoder(_Allowed | _Released | _Granted | _Denied)


class HttpPolicy:
    """Asks ``base_url`` by POST, and fails closed: whatever is not exactly an answer denies as unavailable.

    =================  ===========================================================  =================================
    path               body                                                         answers, with status 200
    =================  ===========================================================  =================================
    ``/probe``         ``scope, operation``                                         ``allowed``, ``denied``
    ``/acquire``       the request                                                  ``granted``, ``denied``
    ``/commit``        the request and its ``reservation``                          ``granted``, ``denied``
    ``/release``       ``scope, operation, logical_request_key``                    ``released``
    =================  ===========================================================  =================================

    The request is ``{"scope", "operation", "logical_request_key", "fingerprint", "resource", "task", "source",
    "input_digest", "units"}``, all texts but the units; ``fingerprint`` is the SHA-256 of the others, so that a server
    can tell a repeated request from another one under the same key by comparing it alone. Answers are

    - ``{"decision": "allowed"}`` and ``{"decision": "released"}``;
    - ``{"decision": "granted", "reservation": R}``: R is 1 to 200 visible ASCII characters, in a commit's answer the
      one that was sent;
    - ``{"decision": "denied", "reason": R, "message": TEXT, "retry_at": TIME}``: R is ``operation_forbidden``,
      ``operation_limit_exceeded`` or ``operation_policy_unavailable``; message and retry_at may be left out; the time
      is ISO 8601 with an offset.

    Another status, another field, a redirect, more than 64 KiB or no answer within ``timeout`` seconds is no answer.
    Nothing is sent twice: every question is idempotent, but when to ask again is the engine's decision. The server
    keeps the promises of `OperationPolicy`; `OperationPolicyContract` tests them through this adapter.

    ``token`` is sent as a bearer token. Call `close` in the event loop that asked.

    Raises:
        InvalidValue: ``base_url`` is no HTTP URL, or httpx is not installed.
    """

    def __init__(self, base_url: str, token: str | None = None, timeout: float = 5.0) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._client = _client(base_url, token)
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        await self._client.aclose()

    async def probe(self, scope: Scope, operation: Operation) -> Denied | None:
        match await self._ask("probe", {"scope": scope, "operation": operation.value}):
            case _Allowed():
                return None
            case _Denied() as denied:
                return _denied(denied)
            case _:
                return _UNAVAILABLE

    async def acquire(self, request: OperationRequest) -> Decision:
        match await self._ask("acquire", _body(request)):
            case _Granted(reservation=reservation):
                return Granted(reservation)
            case _Denied() as denied:
                return _denied(denied)
            case _:
                return _UNAVAILABLE

    async def commit(self, request: OperationRequest, reservation: str) -> Decision:
        match await self._ask("commit", {**_body(request), "reservation": reservation}):
            case _Granted(reservation=spent) if spent == reservation:
                return Granted(reservation)
            case _Denied() as denied:
                return _denied(denied)
            case _:
                return _UNAVAILABLE

    async def release(self, scope: Scope, operation: Operation, logical_request_key: str) -> bool:
        body = {"scope": scope, "operation": operation.value, "logical_request_key": logical_request_key}
        return isinstance(await self._ask("release", body), _Released)

    async def _ask(self, question: str, body: Mapping[str, Any]) -> object:
        """Return what was answered, or None."""
        import httpx  # noqa: PLC0415 - an optional dependency; the constructor has found it

        try:
            # waiting for one's turn is no part of the server's time
            async with self._places, asyncio.timeout(self._timeout):
                return _DECODER.decode(await self._post(question, msgspec.json.encode(body)))
        except TimeoutError:
            log.warning("the operation policy did not answer %s within %s s", question, self._timeout)
        except httpx.HTTPError as error:
            log.warning("the operation policy could not be asked to %s: %s", question, type(error).__name__)
        except (msgspec.MsgspecError, _NoAnswerError, UnicodeDecodeError) as error:
            log.warning("the operation policy's answer to %s means nothing: %s", question, error)
        return None

    async def _post(self, question: str, body: bytes) -> bytes:
        async with self._client.stream("POST", f"{self._base_url}/{question}", content=body) as response:
            if response.status_code != 200:  # noqa: PLR2004 - the one status of an answer
                raise _NoAnswerError(f"status {response.status_code}")
            received = bytearray()
            async for chunk in response.aiter_bytes(_LARGEST):
                received += chunk
                if len(received) > _LARGEST:
                    raise _NoAnswerError(f"more than {_LARGEST} bytes")
            return bytes(received)


class _NoAnswerError(Exception):
    """The server said something, but did not answer."""


def _client(base_url: str, token: str | None) -> "httpx.AsyncClient":
    try:
        import httpx  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise InvalidValue("an operation policy behind HTTP needs httpx: pip install 'imgproc[http-policy]'") from error
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise InvalidValue("the operation policy's URL cannot be parsed") from error
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        raise InvalidValue("the operation policy's URL is http(s)://HOST[:PORT][/PATH]")
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.AsyncClient(
        headers=headers,
        timeout=None,  # noqa: S113 - one bound over the whole exchange is set where it is made
        follow_redirects=False,
        trust_env=False,
        limits=httpx.Limits(max_connections=_AT_ONCE, keepalive_expiry=_KEEP_ALIVE),
    )


def _body(request: OperationRequest) -> Mapping[str, Any]:
    return {
        "scope": request.scope,
        "operation": request.operation.value,
        "logical_request_key": request.logical_request_key,
        "fingerprint": request.fingerprint,
        "resource": request.resource,
        "task": request.task,
        "source": request.source,
        "input_digest": request.input_digest,
        "units": request.units,
    }


def _denied(answer: _Denied) -> Denied:
    try:
        retry_at = answer.retry_at.astimezone(UTC) if answer.retry_at else None
    except OverflowError:
        return _UNAVAILABLE
    return Denied(answer.reason, answer.message, retry_at)

"""A host's policy server: plain HTTP in front of any policy, or of an answer that a test makes up."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import define, field
from tests.integration.http.site import serving

from imgproc_domain.policy import Decision, Denied, Operation, OperationRequest
from imgproc_domain.ports.policy import OperationPolicy
from imgproc_domain.scope import Scope

Answer = Callable[[str, dict[str, Any]], Awaitable[tuple[int, bytes]]]

_JSON: Final = [(b"content-type", b"application/json")]


@define
class PolicyServer:
    """Counts what it was asked, and checks who asks."""

    answer: Answer
    token: str | None = None
    asked: list[str] = field(factory=list)
    headers: list[tuple[bytes, bytes]] = field(factory=lambda: list(_JSON))

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        question = scope["path"].rpartition("/")[2]
        self.asked.append(question)
        if self.token and (b"authorization", f"Bearer {self.token}".encode()) not in scope["headers"]:
            status, content = 401, b"{}"
        else:
            status, content = await self.answer(question, json.loads(body))
        await send({"type": "http.response.start", "status": status, "headers": self.headers})
        await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def offering(server: PolicyServer) -> AsyncIterator[str]:
    """Serve on a free port and yield the base URL."""
    async with serving(server) as url:
        yield f"{url}/policy"


def answers_of(policy: OperationPolicy) -> Answer:
    """Speak for ``policy`` as the contract in `HttpPolicy` says."""

    async def answer(question: str, body: dict[str, Any]) -> tuple[int, bytes]:
        return 200, json.dumps(await _decided(policy, question, body)).encode()

    return answer


async def _decided(policy: OperationPolicy, question: str, body: dict[str, Any]) -> dict[str, Any]:
    scope, operation = Scope(body["scope"]), Operation(body["operation"])
    match question:
        case "probe":
            denied = await policy.probe(scope, operation)
            return _told(denied) if denied else {"decision": "allowed"}
        case "acquire":
            return _told(await policy.acquire(_request(body)))
        case "commit":
            return _told(await policy.commit(_request(body), body["reservation"]))
        case _:
            assert await policy.release(scope, operation, body["logical_request_key"])
            return {"decision": "released"}


def _request(body: dict[str, Any]) -> OperationRequest:
    names = ("logical_request_key", "resource", "task", "source", "input_digest", "units")
    request = OperationRequest(
        scope=Scope(body["scope"]), operation=Operation(body["operation"]), **{name: body[name] for name in names}
    )
    assert request.fingerprint == body["fingerprint"]
    return request


def _told(decision: Decision) -> dict[str, Any]:
    if not isinstance(decision, Denied):
        return {"decision": "granted", "reservation": decision.reservation}
    told: dict[str, Any] = {"decision": "denied", "reason": decision.reason.value, "message": decision.message}
    return told | ({"retry_at": decision.retry_at.isoformat()} if decision.retry_at else {})

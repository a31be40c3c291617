"""The policy behind HTTP, against a real server on a real socket."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.policy.server import PolicyServer, answers_of, offering

from imgproc_adapters.policy.http import HttpPolicy
from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.testing.contracts import OperationPolicyContract
from imgproc_adapters.testing.factories import make_request
from imgproc_adapters.testing.seed import A
from imgproc_domain.errors import InvalidValue
from imgproc_domain.policy import DenialReason, Denied, Granted, Operation

AGENT = Operation.ANALYSIS_AGENT
TOKEN = "a-token-of-the-test"
GRANTED = {"decision": "granted", "reservation": "r-1"}


class TestContract(OperationPolicyContract):
    """HTTP in front of quotas in PostgreSQL: the whole way."""

    @pytest_asyncio.fixture
    async def policy(self, engine: AsyncEngine) -> AsyncIterator[HttpPolicy]:
        quotas = QuotaPolicy(engine, {AGENT: Quota(10, Period.MONTH)})
        server = PolicyServer(answers_of(quotas), token=TOKEN)
        async with asking(server, token=TOKEN) as policy:
            yield policy


@asynccontextmanager
async def asking(server: PolicyServer, token: str | None = None, timeout: float = 30.0) -> AsyncIterator[HttpPolicy]:  # noqa: ASYNC109 - the setting under test
    async with offering(server) as url:
        policy = HttpPolicy(url, token, timeout)
        try:
            yield policy
        finally:
            await policy.close()


def saying(content: bytes | dict[str, Any], status: int = 200) -> PolicyServer:
    """A server that says the same to every question."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def answer(*_: object) -> tuple[int, bytes]:
        return status, raw

    return PolicyServer(answer)


async def assert_unavailable(policy: HttpPolicy) -> None:
    answers = [
        await policy.probe(A, AGENT),
        await policy.acquire(make_request()),
        await policy.commit(make_request(), "r-1"),
    ]
    assert [a.reason for a in answers if isinstance(a, Denied)] == [DenialReason.UNAVAILABLE] * 3
    assert not await policy.release(A, AGENT, "key-1")


async def test_a_denial_comes_through_whole() -> None:
    told = {
        "decision": "denied",
        "reason": "operation_limit_exceeded",
        "message": "today's budget is used up",
        "retry_at": "2027-01-02T01:00:00+01:00",
    }
    async with asking(saying(told)) as policy:
        expected = Denied(
            DenialReason.LIMIT_EXCEEDED, "today's budget is used up", datetime(2027, 1, 2, 0, 0, tzinfo=UTC)
        )
        assert await policy.acquire(make_request()) == expected
        assert await policy.commit(make_request(), "r-1") == expected
        assert await policy.probe(A, AGENT) == expected


async def test_message_and_time_may_be_left_out() -> None:
    async with asking(saying({"decision": "denied", "reason": "operation_forbidden"})) as policy:
        assert await policy.acquire(make_request()) == Denied(DenialReason.FORBIDDEN)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[]",
        b"null",
        b"{",
        b"[" * 60_000,
        {},
        {"decision": "maybe"},
        {"decision": None},
        {"granted": True},
        {"decision": "granted"},
        {"decision": "granted", "reservation": ""},
        {"decision": "granted", "reservation": 7},
        {"decision": "granted", "reservation": "a\0b"},
        {"decision": "granted", "reservation": "r-1\n"},
        {"decision": "granted", "reservation": "x" * 201},
        {**GRANTED, "units": 3},
        {"decision": "denied"},
        {"decision": "denied", "reason": "because"},
        {"decision": "denied", "reason": "operation_limit_exceeded", "retry_at": "tomorrow"},
        {"decision": "denied", "reason": "operation_limit_exceeded", "retry_at": "2027-01-02T01:00:00"},
        {"decision": "denied", "reason": "operation_limit_exceeded", "retry_at": 1_800_000_000},
        {"decision": "denied", "reason": "operation_limit_exceeded", "retry_at": "0001-01-01T00:00:00+14:00"},
        {"decision": "denied", "reason": "operation_forbidden", "message": ["no"]},
        json.dumps({"decision": "denied", "reason": "operation_forbidden", "message": "x" * 70_000}).encode(),
    ],
    ids=lambda answer: str(answer)[:60],
)
async def test_what_is_no_answer_denies_as_unavailable(answer: bytes | dict[str, Any]) -> None:
    async with asking(saying(answer)) as policy:
        await assert_unavailable(policy)


@pytest.mark.parametrize("status", [201, 204, 302, 400, 401, 429, 500, 503])
async def test_another_status_is_no_answer_whatever_it_says(status: int) -> None:
    server = saying(GRANTED if status != 204 else b"", status)
    server.headers.append((b"location", b"/elsewhere"))
    async with asking(server) as policy:
        await assert_unavailable(policy)
    assert server.asked == ["probe", "acquire", "commit", "release"], "nothing is asked twice, and nobody else"


async def test_the_answer_to_another_question_is_none() -> None:
    async with asking(saying({"decision": "allowed"})) as policy:
        denied = await policy.acquire(make_request())
        assert isinstance(denied, Denied)
        assert not await policy.release(A, AGENT, "key-1")
    async with asking(saying(GRANTED)) as policy:
        assert isinstance(await policy.probe(A, AGENT), Denied)
        assert await policy.acquire(make_request()) == Granted("r-1")
        assert isinstance(await policy.commit(make_request(), "r-2"), Denied), "another reservation was spent"


async def test_without_the_token_the_server_answers_nothing() -> None:
    server = saying(GRANTED)
    server.token = TOKEN
    async with asking(server) as policy:
        await assert_unavailable(policy)


async def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    stuck = asyncio.Event()

    async def answer(*_: object) -> tuple[int, bytes]:
        await stuck.wait()
        return 200, json.dumps(GRANTED).encode()

    server = PolicyServer(answer)
    async with asking(server, timeout=0.05) as policy:
        try:
            await assert_unavailable(policy)
        finally:
            stuck.set()
    assert len(server.asked) <= 4, "nothing is asked twice"


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with offering(saying(GRANTED)) as url:
        gone = url
    policy = HttpPolicy(gone)
    await assert_unavailable(policy)
    await policy.close()


async def test_more_questions_than_connections_wait_for_their_turn() -> None:
    async with asking(saying(GRANTED)) as policy:
        decisions = await asyncio.gather(*(policy.acquire(make_request(str(n))) for n in range(100)))
    assert set(decisions) == {Granted("r-1")}


@pytest.mark.parametrize(
    "url", ["", "policy", "ftp://host/", "http://", "http://host/?a=b", "http://[::1", "file:///x"]
)
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidValue, match="URL"):
        HttpPolicy(url)


def test_without_httpx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InvalidValue, match=r"imgproc\[http-policy\]"):
        HttpPolicy("http://host")

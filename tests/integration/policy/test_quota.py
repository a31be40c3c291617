"""The quota policy counts by the database, for every process at once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import pytest_asyncio
from attrs import evolve
from psycopg.conninfo import make_conninfo
from sqlalchemy.ext.asyncio import AsyncEngine

from imgproc_adapters.policy.quota import QuotaPolicy
from imgproc_adapters.policy.reservation import Period, Quota
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.testing.contracts import OperationPolicyContract
from imgproc_adapters.testing.factories import make_request
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.policy import Decision, DenialReason, Denied, Granted, Operation

AGENT = Operation.ANALYSIS_AGENT
A_MONTH = {AGENT: Quota(2, Period.MONTH)}
"""The longest period: the one that turns in the middle of a test least often."""


class TestContract(OperationPolicyContract):
    @pytest.fixture
    def policy(self, engine: AsyncEngine) -> QuotaPolicy:
        return QuotaPolicy(engine, {AGENT: Quota(10, Period.MONTH)})


@pytest.fixture
def policy(engine: AsyncEngine) -> QuotaPolicy:
    return QuotaPolicy(engine, A_MONTH)


@pytest_asyncio.fixture
async def nowhere(database: str, pooled: bool) -> AsyncIterator[QuotaPolicy]:
    """A policy whose database is not there."""
    engine = open_engine(make_conninfo(database, dbname="no_such_database"), pooler=pooled)
    yield QuotaPolicy(engine, A_MONTH)
    await engine.dispose()


async def acquire(policy: QuotaPolicy, *keys: str) -> list[Decision]:
    return [await policy.acquire(make_request(key, A)) for key in keys]


def granted(decisions: list[Decision]) -> list[bool]:
    return [isinstance(decision, Granted) for decision in decisions]


def exceeded(decision: Decision | None) -> Denied:
    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.LIMIT_EXCEEDED
    return decision


async def test_beyond_the_quota_a_request_is_denied_until_the_next_period(policy: QuotaPolicy) -> None:
    before = datetime.now(UTC)
    *first, last = await acquire(policy, "1", "2", "3")
    assert granted(first) == [True, True]
    retry_at = exceeded(last).retry_at
    assert retry_at is not None
    assert (retry_at.day, retry_at.hour, retry_at.minute, retry_at.second, retry_at.microsecond) == (1, 0, 0, 0, 0)
    assert before < retry_at <= before + timedelta(days=31, minutes=5)
    assert exceeded(await policy.probe(A, AGENT)).retry_at == retry_at


async def test_a_repeated_request_costs_nothing_and_survives_the_quota(policy: QuotaPolicy) -> None:
    first = await acquire(policy, "1", "1", "1", "2")
    assert granted(first) == [True] * 4
    assert await acquire(policy, "1", "2") == [first[0], first[3]]


async def test_of_requests_for_the_last_unit_exactly_one_is_granted(
    database: str, pooled: bool, policy: QuotaPolicy
) -> None:
    await acquire(policy, "1")
    elsewhere = open_engine(database, pooler=pooled)
    another = QuotaPolicy(elsewhere, A_MONTH)
    try:
        asked = [policy.acquire(make_request(f"key-{n}", A)) for n in range(8)]
        asked += [another.acquire(make_request(f"other-{n}", A)) for n in range(8)]
        assert sum(granted(await asyncio.gather(*asked))) == 1
    finally:
        await elsewhere.dispose()


async def test_a_request_waits_for_the_one_that_is_being_decided(policy: QuotaPolicy, direct: str) -> None:
    await acquire(policy, "1")
    async with await psycopg.AsyncConnection.connect(direct) as another:
        await another.execute("SELECT FROM scopes WHERE scope_id = %s FOR NO KEY UPDATE", [A])
        acquiring = asyncio.create_task(policy.acquire(make_request("3", A)))
        waiting = asyncio.create_task(waits(direct))
        await asyncio.wait((acquiring, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await another.execute(
            "INSERT INTO policy_reservations"
            " (scope_id, operation, logical_request_key, fingerprint, units, acquired_at)"
            " VALUES (%s, %s, '2', 'f', 1, now())",
            [A, AGENT],
        )
        await another.commit()
    exceeded(await acquiring)


async def test_one_request_that_comes_twice_at_once_is_one(policy: QuotaPolicy) -> None:
    decisions = await asyncio.gather(*(policy.acquire(make_request("1", A)) for _ in range(8)))
    assert len(set(decisions)) == 1
    assert granted(await acquire(policy, "2", "3")) == [True, False]


async def test_scopes_and_operations_are_counted_apart(policy: QuotaPolicy) -> None:
    assert granted(await acquire(policy, "1", "2", "3")) == [True, True, False]
    assert isinstance(await policy.acquire(make_request("3", B)), Granted)
    upload = evolve(make_request("3", A), operation=Operation.IMAGE_UPLOAD)
    assert isinstance(await policy.acquire(upload), Granted)
    assert await policy.probe(A, Operation.IMAGE_UPLOAD) is None


async def test_units_come_back_whether_they_were_committed_or_not(policy: QuotaPolicy) -> None:
    first, second = await acquire(policy, "1", "2")
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    await policy.commit(make_request("1", A), first.reservation)
    for key in ("1", "2"):
        assert await policy.release(A, AGENT, key)
    assert granted(await acquire(policy, "3", "4", "5")) == [True, True, False]
    for key, reserved in (("1", first), ("2", second)):
        denied = await policy.commit(make_request(key, A), reserved.reservation)
        assert isinstance(denied, Denied)
        assert denied.reason is DenialReason.FORBIDDEN


async def test_a_forged_reservation_or_another_input_is_not_committed(policy: QuotaPolicy) -> None:
    (first,) = await acquire(policy, "1")
    assert isinstance(first, Granted)
    request = make_request("1", A)
    for changed in (evolve(request, input_digest="another"), evolve(request, units=2), evolve(request, scope=B)):
        denied = await policy.commit(changed, first.reservation)
        assert isinstance(denied, Denied)
        assert denied.reason is DenialReason.FORBIDDEN
    assert isinstance(await policy.commit(request, "quota:forged"), Denied)


async def test_when_the_period_turns_the_units_are_there_again(policy: QuotaPolicy, database: str) -> None:
    assert granted(await acquire(policy, "1", "2", "3")) == [True, True, False]
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("UPDATE policy_reservations SET acquired_at = acquired_at - interval '1 month'")
    assert granted(await acquire(policy, "3", "4", "5")) == [True, True, False]


async def test_every_quota_of_a_scope_holds_and_replaces_the_default(policy: QuotaPolicy) -> None:
    await policy.set_quota(A, AGENT, Quota(1, Period.WEEK))
    await policy.set_quota(A, AGENT, Quota(3, Period.MONTH))
    first, second = await acquire(policy, "1", "2")
    assert isinstance(first, Granted)
    assert "this week" in exceeded(second).message
    await policy.set_quota(A, AGENT, Quota(100, Period.WEEK))
    *more, last = await acquire(policy, "2", "3", "4")
    assert granted(more) == [True, True]
    denied = exceeded(last)
    assert "this month" in denied.message
    assert denied.retry_at is not None
    assert (denied.retry_at.day, denied.retry_at.hour) == (1, 0)
    await policy.drop_quota(A, AGENT, Period.MONTH)
    assert granted(await acquire(policy, "4")) == [True]


async def test_a_denied_request_is_granted_under_the_same_key_once_there_is_room(policy: QuotaPolicy) -> None:
    await policy.set_quota(A, AGENT, Quota(0, Period.MONTH))
    denied = exceeded((await acquire(policy, "1"))[0])
    assert denied.retry_at is None, "a quota that has no room for one unit never has"
    await policy.set_quota(A, AGENT, Quota(1, Period.MONTH))
    assert granted(await acquire(policy, "1")) == [True]


async def test_a_request_for_less_than_one_unit_is_forbidden(policy: QuotaPolicy) -> None:
    for units in (0, -5):
        denied = await policy.acquire(evolve(make_request("1", A), units=units))
        assert isinstance(denied, Denied)
        assert denied.reason is DenialReason.FORBIDDEN


async def test_a_release_that_overtakes_its_acquire_wins(policy: QuotaPolicy, direct: str) -> None:
    async with await psycopg.AsyncConnection.connect(direct) as release:
        await release.execute("INSERT INTO scopes VALUES (%s, now())", [A])
        await release.commit()
        await release.execute(
            "INSERT INTO policy_reservations"
            " (scope_id, operation, logical_request_key, units, acquired_at, returned_at)"
            " VALUES (%s, %s, '1', 0, now(), now())",
            [A, AGENT],
        )
        acquiring = asyncio.create_task(policy.acquire(make_request("1", A)))
        await waits(direct)
        await release.commit()
    denied = await acquiring
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.FORBIDDEN


async def waits(direct: str) -> None:
    """Return once a connection of the database waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(30), await psycopg.AsyncConnection.connect(direct, autocommit=True) as watcher:
        while True:
            if await (await watcher.execute(query)).fetchone() == (1,):
                return
            await asyncio.sleep(0.01)


async def test_without_its_database_everything_is_denied_as_unavailable(nowhere: QuotaPolicy) -> None:
    answers = [
        await nowhere.probe(A, AGENT),
        await nowhere.acquire(make_request("1", A)),
        await nowhere.commit(make_request("1", A), f"quota:{make_request('1', A).fingerprint}"),
    ]
    assert [a.reason for a in answers if isinstance(a, Denied)] == [DenialReason.UNAVAILABLE] * 3
    assert not await nowhere.release(A, AGENT, "1")


async def test_what_the_database_cannot_hold_is_denied_as_unavailable(policy: QuotaPolicy) -> None:
    (denied,) = await acquire(policy, "a\0b")
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.UNAVAILABLE
    assert not await policy.release(A, AGENT, "a\0b")

"""Identity from the operating system."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from imgproc_adapters.system import SystemIds

NOW = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)


def test_ids_are_version_7_and_carry_their_time() -> None:
    made = SystemIds().ordered(NOW)
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert made.int >> 80 == int(NOW.timestamp() * 1000)


def test_ids_sort_in_the_order_they_were_made_also_when_the_clock_steps_back() -> None:
    ids = SystemIds()
    times = [NOW] * 1_000 + [NOW - timedelta(hours=1)] * 1_000 + [NOW + timedelta(milliseconds=1)] * 10
    made = [ids.ordered(at) for at in times]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_never_get_the_same_id() -> None:
    ids = SystemIds()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: ids.ordered(NOW), range(2_000)))
    assert len(set(made)) == len(made)


def test_secrets_are_32_hexadecimal_digits_that_never_repeat() -> None:
    ids = SystemIds()
    secrets = {ids.secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", secret) for secret in secrets)

"""Which requests a browser may have been made to send."""

import pytest

from imgproc_adapters.http.sites import is_cross_site, is_known_host

HOST = {"host": "127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"}, True),
        ({"origin": "http://127.0.0.1:8000"}, False),
        ({"origin": "HTTP://127.0.0.1:8000"}, False),
        ({"origin": "http://127.0.0.1:3000"}, True),
        ({"origin": "http://localhost:8000"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": ""}, True),
        ({"origin": "http://[::1"}, True),
    ],
)
def test_a_page_of_another_origin_changes_nothing(headers: dict[str, str], foreign: bool) -> None:
    assert is_cross_site("POST", HOST | headers) is foreign
    for method in ("GET", "HEAD", "OPTIONS"):
        assert not is_cross_site(method, HOST | headers)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("LocalHost:8000", True),
        ("localhost.:8000", True),
        ("127.0.0.1:8000", True),
        ("192.0.2.7", True),
        ("[::1]", True),
        ("[2001:db8::1]:8000", True),
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost.evil", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_addresses_and_given_names_are_hosts(host: str, known: bool) -> None:
    assert is_known_host(host, {"localhost"}) is known

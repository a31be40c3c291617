from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_adapters.http.bodies import decode
from imgproc_adapters.http.errors import UnknownField
from imgproc_adapters.http.wire import ProcessingRequest, RetryRequest, SearchRequest
from imgproc_domain.errors import ImgprocError, InvalidReverseImagePolicy, InvalidValue

Bodies = (ProcessingRequest, RetryRequest, SearchRequest)


def test_an_empty_body_asks_for_the_defaults() -> None:
    assert decode(b"", ProcessingRequest) == decode(b"{}", ProcessingRequest) == ProcessingRequest("forbid")
    assert decode(b"", RetryRequest) == RetryRequest(reverse_image_policy=None)


def test_a_missing_policy_of_a_retry_is_the_old_jobs() -> None:
    assert decode(b'{"reverse_image_policy": null}', RetryRequest).reverse_image_policy is None
    assert decode(b'{"reverse_image_policy": null}', ProcessingRequest).reverse_image_policy == "forbid"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "query in the body: expected text of at most 1000 characters"),
        (b'{"query": 1}', "query in the body: expected text of at most 1000 characters"),
        (b'{"query": "x", "n_results": 1.5}', "n_results in the body: expected a whole number from 1 to 100"),
        (b'{"query": "x", "n_results": true}', "n_results in the body: expected a whole number from 1 to 100"),
        (b'{"query": "x", "min_score": "1"}', "min_score in the body: expected a number from -1 to 1"),
        (b'{"query": "x", "mode": "words"}', "mode in the body: expected one of semantic, hybrid"),
        (b"[]", "the body: expected a JSON object"),
        (b"{", "the body: expected valid JSON"),
        (b'{"query": NaN}', "the body: expected valid JSON"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(body: bytes, message: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        decode(body, SearchRequest)
    assert str(refused.value) == message


def test_every_wrong_value_of_a_body_is_named_at_once() -> None:
    with pytest.raises(InvalidValue) as refused:
        decode(b'{"query": 1, "n_results": "ten"}', SearchRequest)
    assert refused.value.details == {
        "refused": [
            {"in": "body", "field": "query", "expected": "text of at most 1000 characters"},
            {"in": "body", "field": "n_results", "expected": "a whole number from 1 to 100"},
        ]
    }


def test_an_unknown_field_is_named_before_anything_else() -> None:
    with pytest.raises(UnknownField) as refused:
        decode(b'{"scope_id": "bob", "n_results": "ten", "grant": 1}', SearchRequest)
    assert refused.value.details == {"in": "body", "fields": ["grant", "scope_id"]}


@pytest.mark.parametrize("policy", [1, "", "Auto", [], {}, False])
def test_a_policy_of_any_wrong_kind_has_its_own_identifier(policy: object) -> None:
    for kind in (ProcessingRequest, RetryRequest):
        with pytest.raises(InvalidReverseImagePolicy):
            decode(msgspec.json.encode({"reverse_image_policy": policy}), kind)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["query", "n_results", "mode", "min_score", "reverse_image_policy", "scope_id"])


@given(st.dictionaries(names | st.text(max_size=5), json_values, max_size=5))
def test_any_object_is_taken_as_its_class_or_refused_by_name(raw: dict[str, Any]) -> None:
    for kind in Bodies:
        try:
            found = decode(msgspec.json.encode(raw), kind)
        except ImgprocError:
            continue
        assert set(raw) <= set(attrs.fields_dict(kind))
        assert isinstance(found, kind)

"""A changed copy is the one that attrs makes, whatever the class is."""

from functools import cached_property
from typing import Any

import attrs
import pytest
from attrs import field, frozen, validators

from imgproc_adapters.testing.factories import make_attempt, make_context, make_grant, make_job, make_meme, make_task
from imgproc_domain import values
from imgproc_domain.values import evolve


@frozen(slots=False)
class Plain:
    one: int
    two: str = "two"


@frozen
class Slotted:
    one: int


@frozen(slots=False)
class Checked:
    one: int = field(validator=validators.ge(0))


@frozen(slots=False)
class Converted:
    one: int = field(converter=int)


@frozen(slots=False)
class Private:
    _one: int


@frozen(slots=False)
class Derived:
    one: int
    doubled: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.one)


@frozen(slots=False)
class Cached:
    one: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.one


class Heir(Cached):
    """Has a cached property of its base."""


def test_a_plain_value_is_copied_with_its_changes_and_stays_as_it_was() -> None:
    before = Plain(1)
    after = evolve(before, one=2)
    assert (before, after, type(after)) == (Plain(1), Plain(2), Plain)
    assert evolve(before) == before
    assert hash(after) == hash(Plain(2))


@pytest.mark.parametrize("before", [Plain(1), Slotted(1), Checked(1)])
def test_a_field_that_does_not_exist_is_refused(before: Any) -> None:
    with pytest.raises(TypeError):
        evolve(before, three=3)


@pytest.mark.parametrize(
    "value", [Slotted(1), Checked(1), Converted(1), Private(1), Derived(1), Cached(1), Heir(1)], ids=str
)
def test_only_a_class_whose_instances_are_their_fields_is_copied_as_such(value: Any) -> None:
    assert values._is_plain(Plain)
    assert not values._is_plain.__wrapped__(type(value))


def test_what_a_copy_must_check_convert_or_derive_is() -> None:
    with pytest.raises(ValueError, match="one"):
        evolve(Checked(1), one=-1)
    assert evolve(Converted(1), one="2") == Converted(2)
    assert evolve(Private(1), one=2) == Private(2)
    assert evolve(Derived(1), one=2).doubled == 2 * 2
    cached = Heir(1)
    assert [cached.doubled, evolve(cached, one=2).doubled] == [2, 4]


def test_rows_are_copied_as_attrs_copies_them() -> None:
    meme = make_meme()
    job = make_job(meme)
    task = make_task(job)
    rows: list[Any] = [meme, job, task, make_attempt(task), make_grant(task), make_context(meme)]
    for row in rows:
        assert evolve(row) == attrs.evolve(row) == row
        assert evolve(row) is not row
    assert evolve(job, revision=7) == attrs.evolve(job, revision=7)

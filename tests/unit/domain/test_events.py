"""Facts to observe carry ids and codes only."""

from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from attrs import fields

from imgproc_domain.events import Event
from imgproc_domain.ids import AttemptId, JobId, TaskId
from imgproc_domain.scope import Scope

IDS = {Scope, JobId, TaskId, AttemptId}
STATUS_FIELDS = {"status", "step"}


def carries_no_content(name: str, kind: Any) -> bool:
    parts = get_args(kind) or (kind,)
    return all(
        part in IDS
        or part in {int, NoneType}
        or (part is str and name in STATUS_FIELDS)
        or (isinstance(part, type) and issubclass(part, StrEnum))
        for part in parts
    )


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.__name__)
def test_an_event_names_its_scope_and_carries_no_text_of_people_or_agents(event: type[Any]) -> None:
    kinds = get_type_hints(event)
    names = [field.name for field in fields(event)]
    assert names[0] == "scope"
    assert [name for name in names if not carries_no_content(name, kinds[name])] == []

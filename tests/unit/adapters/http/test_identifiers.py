from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgproc_adapters.http.identifiers import (
    PageOf,
    parse_job_id,
    parse_meme_id,
    parse_task_id,
    read_cursor,
    write_cursor,
)
from imgproc_domain.errors import InvalidValue, MemeNotFound, TaskNotFound

lists = pytest.mark.parametrize("of", PageOf)


@lists
@given(found=st.uuids())
def test_a_cursor_comes_back_as_it_went(of: PageOf, found: UUID) -> None:
    written = write_cursor(of, found)
    assert written is not None
    assert len(written) == 23
    assert read_cursor(of, written) == found


@lists
@given(found=st.uuids())
def test_the_cursor_of_another_list_is_none(of: PageOf, found: UUID) -> None:
    for other in set(PageOf) - {of}:
        with pytest.raises(InvalidValue, match="of a page of this list"):
            read_cursor(of, write_cursor(other, found))


@lists
@given(raw=st.text(max_size=30))
def test_nothing_else_is_a_cursor(of: PageOf, raw: str) -> None:
    try:
        found = read_cursor(of, raw)
    except InvalidValue:
        return
    assert write_cursor(of, found) == raw


@lists
def test_no_cursor_is_the_beginning(of: PageOf) -> None:
    assert read_cursor(of, None) is None
    assert write_cursor(of, None) is None


@given(st.uuids())
def test_ids_are_read_in_their_canonical_form_only(found: UUID) -> None:
    assert parse_meme_id(str(found)) == parse_job_id(str(found).upper()) == parse_task_id(str(found)) == found
    for raw in (found.hex, f"{{{found}}}", found.urn, f" {found}"):
        with pytest.raises(MemeNotFound):
            parse_meme_id(raw)
        with pytest.raises(TaskNotFound):
            parse_job_id(raw)
        with pytest.raises(TaskNotFound):
            parse_task_id(raw)

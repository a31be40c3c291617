"""How far a backfill is, as a person at a terminal sees it, and where no bar can be drawn."""

import io
import re
from uuid import UUID

from rich.console import Console

from imgproc_app.cli.backfill_view import Advance, Refused, Tally
from imgproc_app.cli.output import Output
from imgproc_domain.diagnosis import Diagnosis, ErrorCode
from imgproc_domain.errors import SearchIncomplete
from imgproc_domain.ids import MemeId
from imgproc_domain.scope import LOCAL, Scope
from imgproc_domain.usecases.backfill import Failure


def output(*, terminal: bool = False, as_json: bool = False) -> tuple[Output, io.StringIO]:
    said = io.StringIO()
    console = Console(file=said, force_terminal=terminal, width=100, markup=False)
    return Output(as_json, Console(file=io.StringIO(), width=100), console), said


def words(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split())


def test_a_terminal_shows_a_bar_with_what_is_done_how_fast_and_what_is_left() -> None:
    at, said = output(terminal=True)
    advance = Advance(at)
    with advance.shown():
        advance.begin(LOCAL, 40)
        advance.seen(10)
        advance.seen(10)
    shown = words(said.getvalue())
    assert "scope local" in shown
    assert "20/40" in shown
    assert "/s" in shown


def test_where_no_bar_can_be_drawn_a_line_tells_it_now_and_then() -> None:
    clock = [100.0]
    at, said = output()
    advance = Advance(at, lambda: clock[0])
    with advance.shown():
        advance.begin(LOCAL, 100)
        for seconds in (4, 4, 4):
            clock[0] += seconds
            advance.seen(12)
    assert said.getvalue() == "scope local: 36 of 100 pictures, 3.0/s, about 21 s left\n"


def test_json_is_disturbed_by_neither() -> None:
    clock = [100.0]
    at, said = output(terminal=True, as_json=True)
    advance = Advance(at, lambda: clock[0])
    with advance.shown():
        advance.begin(LOCAL, 100)
        clock[0] += 60
        advance.seen(12)
    assert said.getvalue() == ""


def test_pictures_that_came_meanwhile_count_too() -> None:
    at, said = output(terminal=True)
    advance = Advance(at)
    with advance.shown():
        advance.begin(LOCAL, 10)
        advance.seen(12)
    assert "12/12" in words(said.getvalue())


def failures(number: int) -> list[Failure]:
    return [Failure(MemeId(UUID(int=n)), Diagnosis(ErrorCode.EMBEDDING_FAILED, f"no {n}")) for n in range(number)]


def test_failures_are_counted_and_a_bounded_number_of_them_is_named() -> None:
    tally = Tally()
    tally.counts.update(embedded=2)
    tally.counts.update(embedded=3)
    tally.fail(LOCAL, failures(60))
    tally.fail(Scope("ann"), failures(60))
    document = tally.document()
    assert (document["embedded"], document["failed"]) == (5, 120)
    named = document["failures"]
    assert isinstance(named, list)
    assert len(named) == 100
    assert named[-1] == {
        "scope": "ann",
        "meme_id": UUID(int=39),
        "error": "embedding_failed",
        "message": "no 39",
    }


def test_what_is_missing_is_named_with_its_scope() -> None:
    error = SearchIncomplete("2 pictures are missing", missing=2, meme_ids=["a", "b"], space_id="s")
    assert Refused(Scope("ann"), error).document() == {
        "scope": "ann",
        "error": "search_incomplete",
        "message": "2 pictures are missing",
        "missing": 2,
        "meme_ids": ["a", "b"],
        "space_id": "s",
    }

"""How far a backfill is, what came of it, and what scopes are searched with: bars and tables, or plain lines."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

from attrs import define, field, frozen
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from imgproc_app.cli.output import Output, one_line, table_of
from imgproc_app.lifecycle import Runtime
from imgproc_domain.config import VectorSpace
from imgproc_domain.errors import ImgprocError
from imgproc_domain.scope import Scope
from imgproc_domain.usecases.backfill import Failure
from imgproc_domain.usecases.migrate_search import MigrationStatus

_TELL_EVERY: Final = 10.0
_NAMED: Final = 100
"""Pictures and scopes that are named; the others are counted."""

STATUS_COLUMNS: Final = ("scope", "mode", "epoch", "searched with", "being filled", "findable", "pictures", "missing")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.1f}/s")


class Advance:
    """Shows the pictures of one scope after the other: a bar where one can be drawn, else a line now and then."""

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._clock = clock
        self._scope, self._total, self._done = "", 0, 0
        self._began = self._told_at = clock()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(),
            TimeRemainingColumn(),
            console=output.err,
            disable=not output.live,
        )
        self._bar = self._progress.add_task("", total=None)

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._progress:
            yield

    def begin(self, scope: Scope, total: int) -> None:
        self._scope, self._total, self._done = scope, total, 0
        self._began = self._clock()
        self._progress.reset(self._bar, description=f"scope {scope}", total=total)

    def seen(self, pictures: int) -> None:
        self._done += pictures
        # pictures that came meanwhile are seen, too
        self._total = max(self._total, self._done)
        self._progress.update(self._bar, completed=self._done, total=self._total)
        now = self._clock()
        if not self._output.live and not self._output.as_json and now - self._told_at >= _TELL_EVERY:
            self._told_at = now
            self._output.note(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        speed = self._done / seconds if seconds > 0 else 0.0
        left = f", about {(self._total - self._done) / speed:,.0f} s left" if speed > 0 else ""
        return f"scope {self._scope}: {self._done} of {self._total} pictures, {speed:,.1f}/s{left}"


@frozen
class Refused:
    """A scope in which nothing was done, and why."""

    scope: Scope
    error: ImgprocError

    def document(self) -> Mapping[str, object]:
        return {"scope": self.scope, "error": self.error.code, "message": self.error.message, **self.error.details}


@define
class Tally:
    """What came of all scopes. Every failure is counted, and a bounded number of them is kept."""

    scopes: int = 0
    counts: Counter[str] = field(factory=Counter)
    failures: list[tuple[Scope, Failure]] = field(factory=list)
    refused: list[Refused] = field(factory=list)

    @classmethod
    def of(cls, *counted: str) -> Self:
        """Return a tally that names what is counted, in this order, also where it is none."""
        return cls(counts=Counter(dict.fromkeys(counted, 0)))

    def fail(self, scope: Scope, failures: Sequence[Failure]) -> None:
        self.counts["failed"] += len(failures)
        self.failures += [(scope, failure) for failure in failures[: max(_NAMED - len(self.failures), 0)]]

    def document(self) -> Mapping[str, object]:
        named = [
            {
                "scope": scope,
                "meme_id": one.meme_id,
                "error": one.diagnosis.code.value,
                "message": one.diagnosis.message,
            }
            for scope, one in self.failures
        ]
        return {
            "scopes": self.scopes,
            **self.counts,
            "failures": named,
            "refused": [one.document() for one in self.refused],
        }

    def show(self, output: Output) -> None:
        if self.failures:
            rows = [
                (scope, str(one.meme_id), one.diagnosis.code.value, one_line(one.diagnosis.message))
                for scope, one in self.failures
            ]
            output.table(table_of("failed", ("scope", "meme id", "code", "reason"), rows))
        if (unnamed := self.counts["failed"] - len(self.failures)) > 0:
            output.say(f"... and {unnamed} more")
        show_refused(output, self.refused)
        scopes = f"{self.scopes} scope" + ("" if self.scopes == 1 else "s")
        said = [f"{number} {name.replace('_', ' ')}" for name, number in self.counts.items()]
        output.say(f"{', '.join(said)} in {scopes}")


def show_refused(output: Output, refused: Sequence[Refused]) -> None:
    if refused:
        rows = [(one.scope, one.error.code, one_line(one.error.message)) for one in refused[:_NAMED]]
        output.table(table_of("refused", ("scope", "code", "reason"), rows))
    if len(refused) > _NAMED:
        output.say(f"... and {len(refused) - _NAMED} more")


def named_space(runtime: Runtime, space: VectorSpace) -> str:
    """Return the name that an operator chose a model by, or the space's own if no model of this process has it."""
    local = (runtime.local_models.text, *runtime.local_models.more_text)
    return next((model.host.setup.text_model for model in local if model.space == space), space.id)


def status_table(runtime: Runtime, found: Sequence[tuple[Scope, MigrationStatus]]) -> Table:
    rows = [
        (
            scope,
            status.state.mode.value,
            str(status.state.epoch),
            named_space(runtime, status.read),
            named_space(runtime, status.state.filling) if status.state.filling else "",
            str(status.coverage.searchable),
            str(status.coverage.total),
            str(status.missing),
        )
        for scope, status in found
    ]
    return table_of("", STATUS_COLUMNS, rows, right=("epoch", *STATUS_COLUMNS[5:]))


def status_document(scope: Scope, status: MigrationStatus) -> Mapping[str, object]:
    state, generation = status.state, status.generation
    return {
        "scope": scope,
        "mode": state.mode.value,
        "epoch": state.epoch,
        "read": _space(status.read),
        "serving": _space(status.serving),
        "filling": _space(state.filling) if state.filling else None,
        "searchable": status.coverage.searchable,
        "total": status.coverage.total,
        "missing": status.missing,
        "generation": {
            "generation_id": generation.generation_id,
            "completed_at": generation.completed_at,
            "entries": generation.entries,
        }
        if generation
        else None,
    }


def _space(space: VectorSpace) -> Mapping[str, object]:
    return {"model": space.id, "dimension": space.dimension}

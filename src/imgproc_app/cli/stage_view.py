"""Pictures on their way through the three stages: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from attrs import define, field
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from imgproc_app.cli.jobs import Followed, failure_of, succeeded
from imgproc_app.cli.output import Output
from imgproc_domain.ids import TaskId
from imgproc_domain.job import Job, JobStatus, StageState
from imgproc_domain.stage import STAGES

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME: Final = 8
"""Lines of the terminal that are not pictures: title, header, rules, totals."""
_BAR: Final = 24
_STAGE: Final = 9
"""Columns of the terminal for what is said of a stage."""

_ENDED: Final[Mapping[JobStatus, tuple[str, str]]] = {
    JobStatus.SUCCEEDED: ("✔", "green"),
    JobStatus.FAILED: ("✘ failed", "red"),
    JobStatus.BLOCKED: ("■ blocked", "magenta"),
    JobStatus.UNKNOWN: ("? unknown", "magenta"),
}


@define
class StageView:
    """Shows jobs as they were last `put`."""

    output: Output
    title: str
    _jobs: dict[str, Job] = field(factory=dict, init=False)
    _running: Collection[TaskId] = field(default=frozenset(), init=False)
    _began: float = field(factory=time.monotonic, init=False)
    _live: Live | None = field(default=None, init=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.output.live:
            yield
            return
        with Live(console=self.output.err, get_renderable=self._render, refresh_per_second=5) as live:
            self._live = live
            yield

    @property
    def ended(self) -> int:
        return sum(not job.live for job in self._jobs.values())

    @property
    def succeeded(self) -> int:
        return sum(succeeded(job) for job in self._jobs.values())

    @property
    def total(self) -> int:
        return len(self._jobs)

    def put(self, followed: Followed) -> None:
        before = self._jobs.get(followed.name)
        self._jobs[followed.name] = followed.job
        just_ended = not followed.job.live and (before is None or before.live)
        if just_ended and not self.output.live and not self.output.as_json:
            self.output.note(f"[{self.ended:>3}/{self.total}] {followed.name}: {_in_words(followed.job)}")

    def running(self, tasks: Collection[TaskId]) -> None:
        self._running = tasks

    def _render(self) -> RenderableType:
        table = Table(title=self.title, title_justify="left", title_style="bold", header_style="bold")
        table.add_column("picture", overflow="ellipsis", no_wrap=True, max_width=44)
        for stage in STAGES:
            table.add_column(stage.value.partition("_")[0], min_width=_STAGE, no_wrap=True)
        rows = max(3, self.output.err.height - _FRAME)
        shown = self._interesting(rows)
        for name, job in shown:
            table.add_row(Text(name), *(self._cell(state) for state in job.stages))
        hidden = self.total - len(shown)
        more = f"   ({hidden} more not shown)" if hidden else ""
        total = Text(f"{self.ended} of {self.total} pictures, {time.monotonic() - self._began:.0f} s{more}")
        footer = Table.grid(padding=(0, 1))
        footer.add_row(ProgressBar(total=max(1, self.total), completed=self.ended, width=_BAR), total)
        return Group(table, footer)

    def _interesting(self, rows: int) -> list[tuple[str, Job]]:
        """Return pictures by name: all, or if there are too many those at work, then those waiting, then those done."""
        if self.total <= rows:
            return sorted(self._jobs.items())
        chosen = sorted(self._jobs.items(), key=lambda item: self._rank(item[1]))[:rows]
        names = {name for name, _ in chosen}
        return [(name, job) for name, job in sorted(self._jobs.items()) if name in names]

    def _rank(self, job: Job) -> tuple[int, float]:
        if any(state.task_id in self._running for state in job.stages if state.status is JobStatus.RUNNING):
            return 0, 0.0
        if not job.live and not succeeded(job):
            return 1, 0.0
        return (2, -job.progress) if job.live else (3, -job.updated_at.timestamp())

    def _cell(self, state: StageState) -> Text:
        match state.status:
            case JobStatus.QUEUED:
                return Text("·", style="dim")
            case JobStatus.RUNNING if state.task_id in self._running:
                frame = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
                return Text(f"{frame} working", style="yellow")
            case JobStatus.RUNNING:
                return Text("waiting", style="dim")
            case _:
                mark, style = _ENDED[state.status]
                return Text(f"{mark} reused" if state.reused else mark, style=style)


def _in_words(job: Job) -> str:
    if succeeded(job):
        return "succeeded"
    stage, code, message = failure_of(job)
    return f"{job.status.value} at {stage}: {code}: {message}"

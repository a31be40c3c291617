"""What `imgproc import` shows: bars while it runs, a table at its end, or JSON lines."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from imgproc_app.cli.intake import Item, Outcome
from imgproc_app.cli.jobs import Followed, failure_of, succeeded
from imgproc_app.cli.output import Output, one_line, table_of
from imgproc_domain.job import JobStatus

_TELL_EVERY: Final = 10.0
_ROWS: Final = 100
"""Files that a table names; the others are counted, and JSON names them all."""

_TITLES: Final = {
    Outcome.IMPORTED: "imported",
    Outcome.PRESENT: "already there",
    Outcome.SKIPPED: "skipped (no picture)",
    Outcome.REJECTED: "rejected",
}


class ImportReport:
    """Counts outcomes and keeps a bounded number of names."""

    def __init__(self, output: Output, folder: Path) -> None:
        self._output = output
        self._folder = folder
        self._taken: Counter[Outcome] = Counter()
        self._ended: Counter[JobStatus] = Counter()
        self._again = 0
        self._under_way = 0
        self._expected = 0
        self._told_at = time.monotonic()
        self._problems: list[tuple[str, str, str, str]] = []
        self._unnamed = 0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=output.err,
            disable=not output.live,
        )
        self._files = self._progress.add_task("files read", total=None)
        self._jobs = self._progress.add_task("pictures processed", total=0)

    @property
    def anything_wrong(self) -> bool:
        return self._taken[Outcome.REJECTED] > 0 or sum(self._ended.values()) > self._ended[JobStatus.SUCCEEDED]

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._progress:
            yield

    def expect(self, files: int) -> None:
        self._expected = files
        self._progress.update(self._files, total=files)

    def tick(self) -> None:
        """Where no bar can be drawn, tell now and then how far it is."""
        if self._output.live or self._output.as_json or time.monotonic() - self._told_at < _TELL_EVERY:
            return
        self._told_at = time.monotonic()
        read, ended = sum(self._taken.values()), sum(self._ended.values())
        self._output.note(f"{read} of {self._expected} files read, {ended} pictures processed")

    def taken(self, item: Item) -> str:
        """Count a file and return the name to call it by."""
        name = self._name(item.path)
        self._taken[item.outcome] += 1
        self._progress.advance(self._files)
        if item.job is not None:
            self._progress.update(self._jobs, total=self._taken[Outcome.IMPORTED] + self._taken[Outcome.PRESENT])
            self._under_way += item.job.live
            self._again += item.again
        if item.outcome is Outcome.REJECTED:
            self._problem(name, "rejected", item.code or "", item.reason or "")
        if self._output.as_json:
            self._output.document(
                {
                    "file": name,
                    "outcome": item.outcome.value,
                    "meme_id": item.job.meme_id if item.job else None,
                    "job_id": item.job.job_id if item.job else None,
                    "error": item.code,
                    "message": item.reason,
                }
            )
        return name

    def followed(self, followed: Followed) -> None:
        job = followed.job
        if job.live:
            return
        self._ended[job.status] += 1
        self._progress.advance(self._jobs)
        if succeeded(job):
            return
        stage, code, message = failure_of(job)
        self._problem(followed.name, f"{job.status.value} at {stage}", code, message)
        if self._output.as_json:
            self._output.document(
                {
                    "file": followed.name,
                    "outcome": job.status.value,
                    "meme_id": job.meme_id,
                    "job_id": job.job_id,
                    "stage": stage,
                    "error": code,
                    "message": message,
                }
            )

    def finish(self, *, interrupted: bool, waited: bool) -> None:
        if self._output.as_json:
            ended = {status.value: self._ended[status] for status in JobStatus if self._ended[status]}
            taken = {outcome.value: self._taken[outcome] for outcome in Outcome}
            again = {"again_under_other_policy": self._again}
            self._output.document({"summary": {**taken, **again, "jobs": ended, "interrupted": interrupted}})
        if self._problems:
            self._output.table(table_of("not in order", ("file", "what", "code", "reason"), self._problems))
        if self._unnamed:
            self._output.say(f"... and {self._unnamed} more; --json names them all")
        if not interrupted and sum(self._taken.values()) == self._taken[Outcome.SKIPPED]:
            self._output.say(f"no pictures in {self._folder}")
            return
        title = f"import of {self._folder}"
        self._output.table(table_of(title, ("", "files"), self._rows(waited=waited), right=["files"]))
        self._advise(interrupted=interrupted, waited=waited)

    def _rows(self, *, waited: bool) -> list[tuple[str, str]]:
        rows = [(_TITLES[outcome], str(self._taken[outcome])) for outcome in Outcome if outcome in _TITLES]
        if self._again:
            rows.append(("of these again, under the other policy", str(self._again)))
        if waited:
            rows.append(("all stages succeeded", str(self._ended[JobStatus.SUCCEEDED])))
            unwell = (status for status in JobStatus if status is not JobStatus.SUCCEEDED and self._ended[status])
            rows += [(status.value.replace("_", " "), str(self._ended[status])) for status in unwell]
        return rows

    def _advise(self, *, interrupted: bool, waited: bool) -> None:
        if interrupted:
            self._output.note("interrupted: run the same command again to go on")
        elif not waited and self._under_way:
            self._output.note("submitted: 'imgproc serve' or 'imgproc worker' processes them")
        elif not waited:
            self._output.note("nothing to process")
        elif sum(self._ended.values()) > self._ended[JobStatus.SUCCEEDED]:
            self._output.note("'imgproc status' shows more of what failed, 'imgproc retry --failed' tries again")

    def _problem(self, name: str, what: str, code: str, reason: str) -> None:
        if len(self._problems) < _ROWS:
            self._problems.append((name, what, code, one_line(reason)))
        else:
            self._unnamed += 1

    def _name(self, path: Path) -> str:
        inside = path.relative_to(self._folder) if path != self._folder else Path(path.name)
        return one_line(str(inside), 255)

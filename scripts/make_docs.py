"""Writes the pages of `docs/` that are made from the code: `lifecycle.md`, from the transition tables of the domain.

`python scripts/make_docs.py` writes them, `--check` only says whether they are up to date. Every edge of a table must
have its sentence below, and no sentence may be without its edge.
"""

import argparse
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Generic, TypeVar

from attrs import frozen

from imgproc_domain import attempt, grant, job, migration, task
from imgproc_domain.attempt import AttemptStatus as Attempt
from imgproc_domain.grant import GrantStatus as Grant
from imgproc_domain.job import JobStatus as Job
from imgproc_domain.machine import Edges
from imgproc_domain.migration import SearchMode as Search
from imgproc_domain.task import TaskStatus as Task

S = TypeVar("S", bound=StrEnum)

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs" / "lifecycle.md"

HEAD: Final = """\
# Lifecycles

<!-- made by scripts/make_docs.py from the transition tables in src/imgproc_domain: change those, not this page -->

Everything that lasts in imgproc is a row in one of a few states. The tables behind these diagrams are the same ones
that the database's CHECK constraints and the tests read; a step that a table does not have cannot be taken. The words
are explained in the [glossary](glossary.md).
"""


@frozen
class Machine(Generic[S]):
    """A transition table with the words that explain it: `why` has one sentence for every edge."""

    title: str
    about: str
    edges: Edges[S]
    why: Mapping[tuple[S, S], str]


TASK: Final = Machine(
    "Task",
    "The leaf unit of execution. Whoever claims it holds a lease under a new claim generation; only that claim can"
    " write it back.",
    task.EDGES,
    {
        (Task.QUEUED, Task.RUNNING): "A worker claims it; the claim generation rises by one.",
        (Task.QUEUED, Task.FAILED): "It ends before anybody claims it.",
        (Task.RUNNING, Task.SUCCEEDED): "The current claim settles it, in the transaction that writes its product.",
        (Task.RUNNING, Task.FAILED): "A permanent answer, the last transient one, an outcome that nobody can prove"
        " (`unknown_execution`), a picture that is gone (`target_changed`), or too many lost leases"
        " (`lease_exhausted`).",
        (Task.RUNNING, Task.QUEUED): "A transient answer (after a back-off), a worker that gives it back, words that"
        " changed while they were embedded, or an expired lease.",
    },
)

ATTEMPT: Final = Machine(
    "Attempt",
    "One execution of a task against something outside the database. Each step is written before what it names is"
    " done, so that recovery knows how far a lost worker can have come.",
    attempt.EDGES,
    {
        (Attempt.PREPARED, Attempt.GRANT_COMMITTED): "The operation policy committed the grant (agent tasks).",
        (Attempt.PREPARED, Attempt.EXTERNAL_STARTED): "A call that needs no grant is about to be made (visual, text).",
        (Attempt.PREPARED, Attempt.FAILED): "It ended, and certainly no call was made.",
        (Attempt.GRANT_COMMITTED, Attempt.EXTERNAL_STARTED): "The call is about to be made.",
        (Attempt.GRANT_COMMITTED, Attempt.FAILED): "It ended, and certainly no call was made.",
        (Attempt.EXTERNAL_STARTED, Attempt.COMPLETED): "The call returned a result.",
        (Attempt.EXTERNAL_STARTED, Attempt.FAILED): "A definite answer that is no result, or a lost call of a pure"
        " local model, which is simply repeated by a new attempt.",
        (Attempt.EXTERNAL_STARTED, Attempt.UNKNOWN): "Nobody can prove whether the call was made or how it ended. It"
        " is never replayed.",
    },
)

GRANT: Final = Machine(
    "Grant",
    "Permission from the operation policy for one logical agent task. It is acquired before the task exists and"
    " belongs to that task for ever: retries and recovery of the same task use the same grant. Once committed it stays"
    " so, unless the outcome of its task is unknown.",
    grant.EDGES,
    {
        (Grant.ACQUIRED, Grant.COMMITTED): "It is spent, just before the first call of its task.",
        (Grant.ACQUIRED, Grant.RELEASED): "It is given back: its task ended, and no call was made under it.",
        (Grant.ACQUIRED, Grant.UNKNOWN): "Its task ended with an unknown outcome.",
        (Grant.COMMITTED, Grant.UNKNOWN): "Its task ended with an unknown outcome.",
    },
)

JOB: Final = Machine(
    "Job and stage",
    "One revision of processing one picture, and each of its three stages. A job that ended never starts again: a"
    " retry opens the next revision.",
    job.EDGES,
    {
        (Job.QUEUED, Job.RUNNING): "A stage is handed to a task.",
        (Job.QUEUED, Job.SUCCEEDED): "Its product was valid already and is reused; a job, when all three were.",
        (Job.QUEUED, Job.FAILED): "The picture was deleted or replaced (`target_changed`), the configuration changed"
        " (`configuration_changed`), or there is nothing to embed (`no_embeddable_text`).",
        (Job.QUEUED, Job.BLOCKED): "The operation policy denied the agent's operation; no task was created.",
        (Job.QUEUED, Job.UNKNOWN): "An earlier call for this picture ended with an unknown outcome, also one that the"
        " job waited for. It is not made again until a person retries the job.",
        (Job.RUNNING, Job.SUCCEEDED): "The stage's task succeeded; a job, when all three products are valid.",
        (Job.RUNNING, Job.FAILED): "The stage's task failed, or picture or configuration changed.",
        (Job.RUNNING, Job.BLOCKED): "The operation policy took its permission back before the call.",
        (Job.RUNNING, Job.UNKNOWN): "The stage's task ended with an unknown outcome, or a job ends before the call that"
        " must not be made again. A person decides what to do.",
    },
)

SEARCH: Final = Machine(
    "Search mode of a scope",
    "Where the searches of a scope read. Every step raises the epoch, and one query reads one source. A scope that"
    " never had a legacy generation starts as `incremental_only`.",
    migration.EDGES,
    {
        (Search.LEGACY_ONLY, Search.BACKFILL): "Filling the incremental vectors begins; searches still read the"
        " legacy generation.",
        (Search.BACKFILL, Search.INCREMENTAL_ONLY): "The switch: searches read incremental vectors.",
        (Search.BACKFILL, Search.LEGACY_ONLY): "An operator calls the backfill off.",
        (Search.INCREMENTAL_ONLY, Search.LEGACY_ONLY): "An operator rolls the switch back.",
    },
)


def lifecycle() -> str:
    """Return the whole page."""
    sections = [section(TASK), section(ATTEMPT), section(GRANT), section(JOB), section(SEARCH)]
    return "\n".join([HEAD, *sections])


def section(machine: Machine[S]) -> str:
    """Return heading, diagram and table of one state machine.

    Raises:
        ValueError: an edge has no sentence, or a sentence no edge.
    """
    edges = [(source, target) for source in machine.edges for target in _ordered(machine.edges, source)]
    if set(edges) != set(machine.why):
        odd = sorted(f"{source} -> {target}" for source, target in set(edges) ^ set(machine.why))
        raise ValueError(f"{machine.title}: edges and sentences differ in {', '.join(odd)}")
    rows = [f"| `{source}` | `{target}` | {machine.why[source, target]} |" for source, target in edges]
    table = "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows])
    return f"## {machine.title}\n\n{machine.about}\n\n{diagram(machine.edges)}\n\n{table}\n"


def diagram(edges: Edges[S]) -> str:
    """Return a Mermaid state diagram; the first state of the table is the initial one."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(edges))}"]
    for source in edges:
        lines += [f"    {source} --> {target}" for target in _ordered(edges, source)]
        if not edges[source]:
            lines.append(f"    {source} --> [*]")
    return "\n".join(["```mermaid", *lines, "```"])


def _ordered(edges: Edges[S], source: S) -> list[S]:
    """Return the targets in the order of the table: sets have none of their own."""
    return [state for state in edges if state in edges[source]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that are made from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    options = parser.parse_args(arguments)
    page = lifecycle()
    if options.check:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page
        print(f"docs/{PAGE.name} is {'up to date' if current else 'out of date: run scripts/make_docs.py'}")
        return 0 if current else 1
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote docs/{PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

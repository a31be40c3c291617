"""What a run over many hosts says of its history, and when it says that hosts cannot be made."""

import os
import shutil
from typing import Any

import pytest
from chaos import history
from chaos.history import Change
from chaos.hosts import figures
from chaos.hosts.__main__ import CANNOT, main
from chaos.hosts.plan import CUT_OFF, SLOW, Plan
from chaos.hosts.report import Outcome, shortfalls

from imgproc_domain.scope import Scope
from imgproc_domain.task import TaskStatus

RUNNING, QUEUED, SUCCEEDED = TaskStatus.RUNNING, TaskStatus.QUEUED, TaskStatus.SUCCEEDED
CUT = 100.0
LEASE = 2.0


def changes(*rows: tuple[float, str, str, TaskStatus]) -> list[Change]:
    """Make a history of tasks of rows of time, task, process and status."""
    return [
        Change(number, number, history.TASK, Scope("s"), task, status, 1, "", writer, at=at)
        for number, (at, task, writer, status) in enumerate(rows)
    ]


def test_only_what_ended_well_in_that_stretch_counts_for_its_host() -> None:
    made = changes(
        (1.0, "a", "host-1.0", SUCCEEDED),
        (2.0, "b", "host-1.1", SUCCEEDED),
        (2.5, "c", "host-2.0", SUCCEEDED),
        (2.6, "d", "host-2.0", QUEUED),
        (3.0, "e", "host-2.0", SUCCEEDED),
    )
    assert figures.done(made, 2.0, 3.0) == {"host-1": 1, "host-2": 1}
    assert figures.rate(made, ["host-1", "host-3"], 1.0, 3.0) == 1.0


def test_a_task_is_followed_from_the_cut_to_the_end_of_its_claim() -> None:
    before = changes(
        *((CUT - 1, task, f"{CUT_OFF}.0", RUNNING) for task in ("kept", "taken", "landed", "done")),
        (CUT - 1, "another's", "host-1.0", RUNNING),
        (CUT - 0.5, "done", f"{CUT_OFF}.0", SUCCEEDED),
    )
    after = changes(
        (CUT + 0.1, "kept", f"{CUT_OFF}.0", SUCCEEDED),
        (CUT + 2.5, "taken", "host-2.1", QUEUED),
        (CUT + 2.6, "taken", "host-2.1", RUNNING),
        (CUT + 3.0, "landed", f"{CUT_OFF}.1", SUCCEEDED),
        (CUT + 3.0, "another's", "host-1.0", SUCCEEDED),
    )
    found = figures.takeover([*before, *after], CUT_OFF, CUT, LEASE)
    assert (found.held, found.kept, found.landed) == (3, 1, 1)
    assert found.seconds == [2.5]
    assert (found.median, found.longest) == (2.5, 2.5)


def test_a_host_is_known_by_its_processes() -> None:
    made = changes((1.0, "a", f"{CUT_OFF}.0", RUNNING), (2.0, "a", "host-30.0", RUNNING), (3.0, "a", "stage", RUNNING))
    assert figures.written(made, CUT_OFF, 0.0, 9.0) == 1
    assert figures.written(made, CUT_OFF, 1.5, 9.0) == 0


SOUND: dict[str, Any] = {
    **dict.fromkeys(("unknown", "failed", "landed_late", "written_in_silence", "stranded_connections"), 0),
    **dict.fromkeys(("lost", "double_calls", "silent_replays", "stale_writes", "leaked_grants"), 0),
    **dict.fromkeys(("leaked_slots", "broken_invariants", "fencing_rejections", "fencing_rejections_cut_off"), 0),
    **{name: {} for name in ("tasks_by_host", "tasks_by_host_before", "tasks_by_host_slow")},
    **dict.fromkeys(("seconds", "seconds_before", "seconds_slow", "silence", "lease", "takeover_s_median"), 1.0),
    **dict.fromkeys(("others_per_s_before", "others_per_s_slow", "others_per_s_cut", "takeover_s_max"), 10.0),
    "jobs": 5,
    "succeeded": 5,
    "delayed_by": "relay",
    "tasks_after_mending": 3,
    "held_at_cut": 3,
    "kept": 1,
    "taken_over": 2,
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"jobs": 4, "succeeded": 4}, "4 of 5 jobs"),
        ({"held_at_cut": 1, "taken_over": 0}, "nothing was taken over"),
        ({"taken_over": 1}, "not all have ended"),
        ({"taken_over": 1, "landed_late": 1}, "landed after its leases had ended"),
        ({"written_in_silence": 1}, "landed after its leases had ended"),
        ({"others_per_s_slow": 6.9}, f"{SLOW} slowed the others"),
        ({"tasks_after_mending": 0}, "did nothing any more"),
        ({"crashes": ("host-1.0 ended with 1",)}, "ended with 1"),
    ],
)
def test_what_a_run_did_not_show_is_said(changed: dict[str, Any], said: str) -> None:
    plan = Plan(jobs=5, workers=1, seed=1)
    assert shortfalls(plan, Outcome(**SOUND)) == []
    (told,) = shortfalls(plan, Outcome(**SOUND | changed))
    assert said in told
    assert Outcome(**SOUND | {"leaked_slots": 2, "lost": 1}).broken == 3


def test_without_root_or_ip_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main([]) == CANNOT
    assert "make hosts: needs root" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert main([]) == CANNOT
    assert "apt-get install iproute2" in capsys.readouterr().err

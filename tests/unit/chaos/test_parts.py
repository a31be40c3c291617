"""The parts that make things go wrong do so exactly as they say, and a run that fell short says so."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields
from chaos import report
from chaos.__main__ import arguments, plans
from chaos.evidence import Kind
from chaos.models import FINISHED, ChaosAgent, Dice, Fate, described
from chaos.plan import ALLOW_ALL, POLICIES, Plan
from chaos.report import Outcome
from chaos.worker import Arm, Fuse, Order

from imgproc_adapters.testing.ledger import FileLedger
from imgproc_adapters.testing.models import AGENT, NOTHING_KNOWN
from imgproc_domain.attempt import Replay
from imgproc_domain.ids import AttemptId
from imgproc_domain.ports.models import AgentAnswer, AgentCall, Declined, NotStarted
from imgproc_domain.stage import ReverseImagePolicy
from imgproc_domain.usecases.points import Point

CALL = AgentCall(AttemptId("attempt"), "request", "session", Path("/nowhere/scope/sha"), ReverseImagePolicy.AUTO)
PLAN = Plan(policy=ALLOW_ALL, jobs=10, kills=3, stops=2, restarts=1, cuts=4, seed=1)
NOTHING: dict[str, Any] = {field.name: 0 for field in fields(Outcome)} | {"crashes": (), "points": {}, "people": {}}
OUTCOME = evolve(Outcome(**NOTHING), jobs=10, kills=3, stops=2, restarts=1, cuts=4)


def agent(folder: Path, replay: Replay = Replay.LOOKUP) -> ChaosAgent:
    return ChaosAgent(replay, FileLedger(folder / "agent.jsonl"), Dice(random.Random(1)))


async def test_a_provider_that_never_saw_a_call_proves_it(tmp_path: Path) -> None:
    assert await agent(tmp_path).look_up(CALL) == NotStarted()


@pytest.mark.parametrize("fate", list(Fate))
async def test_a_provider_goes_on_when_its_caller_is_killed(tmp_path: Path, fate: Fate) -> None:
    asked = agent(tmp_path)
    asked.ledger.note(AGENT, CALL.attempt_id, "started", fate, until=float("inf"))
    assert await asked.look_up(CALL) == NOTHING_KNOWN
    # noted again as over: as if the time had passed
    asked.ledger.note(AGENT, CALL.attempt_id, "started", fate, until=0.0)
    answer = await asked.look_up(CALL)
    if fate in FINISHED:
        assert isinstance(answer, AgentAnswer)
        assert answer.description == described("sha", "scope", ReverseImagePolicy.AUTO)
    elif fate in (Fate.BUSY, Fate.REFUSED):
        assert isinstance(answer, Declined)
        assert answer.transient is (fate is Fate.BUSY)
    else:
        assert answer == NOTHING_KNOWN


async def test_without_look_up_nothing_is_known_of_any_call(tmp_path: Path) -> None:
    assert await agent(tmp_path, Replay.NEVER).look_up(CALL) == NOTHING_KNOWN


async def test_a_call_is_in_the_ledger_with_its_fate_before_it_ends(tmp_path: Path) -> None:
    asked = agent(tmp_path)
    await asked.describe(CALL)
    started, ended = asked.ledger.calls()
    assert (started.key, started.phase, ended.phase) == (CALL.attempt_id, "started", "ended")
    assert started.outcome == ended.outcome
    assert started.until is not None
    assert started.at < started.until <= ended.at + 0.01


@pytest.mark.parametrize(("act", "sent"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_a_fuse_burns_once_at_its_point_after_so_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, sent: signal.Signals
) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    fuse = Fuse(tmp_path, Arm(act, Point.SETTLED, 2))
    fuse(Point.SETTLED)
    fuse(Point.ACQUIRED)
    assert signals == []
    fuse(Point.SETTLED)
    fuse(Point.SETTLED)
    assert signals == [(os.getpid(), sent)]
    assert json.loads((tmp_path / "points.jsonl").read_text()) == {"act": act, "point": "settled"}


def test_no_fuse_burns_once_all_is_calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: signals.append(number))
    (tmp_path / "calm").touch()
    Fuse(tmp_path, Arm("kill", Point.SETTLED, 1))(Point.SETTLED)
    assert signals == []


@pytest.mark.parametrize("arm", [None, Arm("stop", Point.CALL_ENDED, 3)])
def test_an_order_travels_whole(tmp_path: Path, arm: Arm | None) -> None:
    order = Order("worker-1", tmp_path, "dsn", ALLOW_ALL, Replay.LOOKUP, "1/2/3", arm, hears=False)
    assert Order.from_json(order.to_json()) == order


def test_what_a_run_did_less_of_than_asked_is_named() -> None:
    assert report.shortfalls(PLAN, OUTCOME) == []
    assert report.shortfalls(PLAN, evolve(OUTCOME, kills=2, cuts=0)) == ["2 of 3 kills", "0 of 4 cuts"]
    assert report.shortfalls(PLAN, evolve(OUTCOME, crashes=("worker 1 ended with 1",))) == ["worker 1 ended with 1"]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_offence_counts_as_broken(kind: Kind) -> None:
    assert OUTCOME.broken == 0
    two: dict[str, Any] = {kind.value: 2}
    assert evolve(OUTCOME, **two).broken == 2


def test_the_report_has_the_sums_and_every_run(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "chaos.json"
    outcomes = {policy: evolve(OUTCOME, unknown=2, seconds=1.5) for policy in POLICIES}
    report.write(path, outcomes, {"seed": 1})
    written = json.loads(path.read_text())
    assert (written["jobs"], written["unknown"], written["seconds"], written["lost"], written["seed"]) == (
        *(20, 4, 3.0, 0),
        1,
    )
    assert {policy: run["kills"] for policy, run in written["runs"].items()} == dict.fromkeys(POLICIES, 3)


def test_a_run_is_full_unless_it_is_asked_to_be_small() -> None:
    full = plans(arguments(["--seed", "5"]))
    assert [(p.policy, p.jobs, p.kills, p.stops, p.restarts, p.seed) for p in full] == [
        (policy, 10_000, 500, 100, 5, 5) for policy in POLICIES
    ]
    (quick,) = plans(arguments(["--quick", "--policy", ALLOW_ALL, "--jobs", "7"]))
    assert (quick.jobs, quick.kills) == (7, 12)

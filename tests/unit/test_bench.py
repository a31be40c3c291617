"""What benchmarks report, and when they say that the engine has become slower."""

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import asdict
from benchmarks import docs, engine, history, models, report, search
from benchmarks.__main__ import PARTS, main
from benchmarks.drive import Drained
from benchmarks.engine import Limit
from benchmarks.meter import Reading
from benchmarks.peers import environment
from benchmarks.peers import run as peers
from benchmarks.plan import FULL, QUICK
from benchmarks.rig import SCOPE, Ended
from benchmarks.stats import median, percentiles_ms
from benchmarks.steps import Steps, in_one_line, in_order

from imgproc_domain.diagnosis import ErrorCode
from imgproc_domain.events import JobEnded
from imgproc_domain.ids import JobId
from imgproc_domain.job import JobStatus

# as the design of the reports names them
ENGINE = {
    *("jobs_per_s", "jobs_per_s_2_processes", "limit_jobs_per_s", "ratio", "jobs_per_s_1m_finished"),
    *("jobs_per_s_200k_queued", "wal_bytes_per_job", "commits_per_job", "client_cpu_us_per_job"),
    *("server_cpu_us_per_job", "idle_pickup_ms_p50", "idle_pickup_ms_p99", "submit_per_s", "bulk_submit_per_s"),
}
COSTS = dict.fromkeys(engine.COSTS, 1.0)


def line(ratio: float | None, *, cores: int = 2, full: bool | None = True) -> Mapping[str, Any]:
    marked = {} if full is None else {"full": full}
    figures = {"ratio": ratio, "jobs_per_s": 1.0, "limit_jobs_per_s": 2.0}
    return {"at": "now", "commit": "abc", "cores": cores, **marked, "engine": figures}


def searched(size: int, plan: str) -> dict[str, Any]:
    return asdict(search.Row(size, plan, "hybrid", 20, 0.991, 1.5, 2.5, 1.25, 1.0, 1.5, 0.75))


def ended(status: JobStatus) -> JobEnded:
    return JobEnded(
        SCOPE, JobId(UUID(int=1)), status, None if status is JobStatus.SUCCEEDED else ErrorCode.AGENT_FAILED
    )


def test_percentiles_are_in_milliseconds_whatever_the_order() -> None:
    seconds = [n / 1000 for n in range(100, -1, -1)]
    assert percentiles_ms(seconds) == pytest.approx((50.0, 99.0))


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    assert median([4.0, 1.0, 3.0, 100.0]) == 3.5


def test_costs_are_differences_of_counters_shared_among_the_jobs() -> None:
    before = Reading(wal=1000.0, commits=5.0, client_cpu=1.0, server_cpu=2.0)
    between = Reading(wal=3000.0, commits=25.0, client_cpu=1.5, server_cpu=2.25)
    after = Reading(wal=9000.0, commits=45.0, client_cpu=2.0, server_cpu=3.0)
    whole = (between - before) + (after - between)
    assert whole == after - before
    assert whole.per_job(10) == {
        "wal_bytes_per_job": 800.0,
        "commits_per_job": 4.0,
        "client_cpu_us_per_job": 100_000.0,
        "server_cpu_us_per_job": 100_000.0,
    }


def test_the_ratio_is_that_of_the_medians_and_the_limit_the_better_of_its_clients() -> None:
    limits = [Limit(900.0, 1000.0), Limit(1200.0, 1100.0), Limit(10.0, 20.0)]
    rounds = [Drained(10, rate, 1.0, COSTS) for rate in (1.0, 500.0, 900.0)]
    found = engine.summary(limits, rounds)
    assert (found["jobs_per_s"], found["limit_jobs_per_s"], found["ratio"]) == (500.0, 1000.0, 0.5)


def test_of_a_peer_medians_are_taken_of_every_figure() -> None:
    rounds = [{"jobs_per_s": 1.0, "settings": "some"}, {"jobs_per_s": 4.0, "settings": "some"}]
    assert peers.medians_of(rounds) == {"jobs_per_s": 2.5}


def test_the_report_has_exactly_the_names_that_were_agreed() -> None:
    assert set(engine.KEYS) == ENGINE
    assert set(peers.KEYS) < ENGINE
    assert set(models.KEYS) == {"pictures_per_s", "raw_loop_pictures_per_s", "ratio"}
    assert {row.key for row in report.ROWS} == ENGINE
    assert {row.key for row in report.MODEL_ROWS} == set(models.KEYS)
    wanted = {"scope_size", "plan", "recall_at_10", "p50_ms", "p95_ms", "best_sql_p50_ms", "numpy_p50_ms"}
    assert wanted < searched(1, "exact").keys()
    assert {row.key for row in report.SEARCH_ROWS} | set(report.SEARCH_WORDS) == searched(1, "exact").keys() - {
        "queries"
    }


def test_what_was_not_measured_is_null_and_what_has_no_name_is_an_error() -> None:
    assert in_order(("a", "b"), {"b": 2}) == {"a": None, "b": 2}
    with pytest.raises(ValueError, match="not in the report: c"):
        in_order(("a", "b"), {"c": 3})


def test_a_step_that_fails_costs_the_others_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RuntimeError("this\ndoes not work")

    steps = Steps("part")
    done: list[str] = []
    for name, work in (("first", fail), ("second", lambda: done.append("second"))):
        with steps.step(name):
            work()
    assert done == ["second"]
    assert steps.errors == {"first": "RuntimeError: this does not work"}
    assert "does not work" in capsys.readouterr().err


def test_of_a_group_of_errors_the_first_one_is_told() -> None:
    assert in_one_line(ExceptionGroup("several", [ValueError("one"), ValueError("two")])) == "ValueError: one"


async def test_jobs_are_awaited_by_number_and_one_that_fails_ends_the_measurement() -> None:
    seen = Ended()
    waiting = asyncio.create_task(seen.reach(2, 60.0))
    await asyncio.sleep(0)
    seen.note(ended(JobStatus.SUCCEEDED))
    await asyncio.sleep(0)
    assert not waiting.done()
    seen.note(ended(JobStatus.SUCCEEDED))
    assert await waiting
    assert not await seen.reach(3, 0.0)
    seen.note(ended(JobStatus.FAILED))
    with pytest.raises(RuntimeError, match="did not succeed"):
        await seen.reach(3, 60.0)


@pytest.mark.parametrize(
    ("ratios", "fallen"),
    [
        ([0.50, 0.52, 0.48, 0.39], True),
        ([0.50, 0.52, 0.48, 0.41], False),
        ([0.50, 0.39, 0.50, 0.50], False),
        ([0.10, 0.50, 0.50, 0.39], True),
        ([0.39], False),
    ],
)
def test_more_than_a_fifth_below_the_median_of_earlier_runs_is_a_regression(ratios: list[float], fallen: bool) -> None:
    assert history.judge([line(ratio) for ratio in ratios]).has_fallen is fallen


def test_only_full_runs_on_as_many_cores_are_compared() -> None:
    others = [line(0.9, cores=16), line(0.9, full=False), line(None), {"cores": 2, "fairness": {}}]
    verdict = history.judge([*others, line(0.5, full=None), *others[:1], line(0.45), line(0.1, full=False)])
    assert (verdict.newest, verdict.before, verdict.runs) == (0.45, 0.5, 1)


def test_without_a_full_run_there_is_nothing_to_compare() -> None:
    assert not history.judge([]).has_fallen
    assert str(history.judge([line(0.5, full=False)])) == "there is no full run yet"


@pytest.mark.parametrize(("newest", "code"), [(0.39, 1), (0.41, 0)])
def test_compare_prints_the_trend_and_fails_for_a_regression(
    newest: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(json.dumps(line(ratio)) + "\n" for ratio in (0.5, newest)), encoding="utf-8")
    monkeypatch.setattr(history.read_history, "__defaults__", (path,))
    assert main(["--compare"]) == code
    said = capsys.readouterr().out
    assert f"{newest:.3f}" in said
    assert ("a regression" in said) is bool(code)


def test_the_history_keeps_figures_and_no_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history" / "bench.jsonl"
    monkeypatch.setattr(history, "HISTORY", path)
    found = {"engine": {"ratio": 0.5, "error": "/somewhere: no"}, "peers": {"one": {"jobs_per_s": 1.0, "error": "no"}}}
    for commit in ("one", "two"):
        history.append(found, at=datetime(2026, 1, 2, tzinfo=UTC), commit=commit, cores=2, full=True)
    first, second = history.read_history(path)
    assert first == {
        "at": "2026-01-02T00:00:00+00:00",
        "commit": "one",
        "cores": 2,
        "full": True,
        "engine": {"ratio": 0.5},
        "peers": {"one": {"jobs_per_s": 1.0}},
    }
    assert second["commit"] == "two"


def test_rows_of_search_are_known_by_their_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"search": [searched(100, "exact"), searched(10_000, "hnsw")]}
    monkeypatch.setattr(history, "HISTORY", tmp_path / "bench.jsonl")
    history.append(found, at=datetime(2026, 1, 2, tzinfo=UTC), commit="one", cores=2, full=True)
    (kept,) = history.read_history(tmp_path / "bench.jsonl")
    assert {name: row["p50_ms"] for name, row in kept["search"].items()} == {
        "100 exact hybrid": 1.5,
        "10000 hnsw hybrid": 1.5,
    }


def test_a_part_measured_anew_leaves_the_others_as_they_were() -> None:
    before = {"engine": {"ratio": 1}, "models": {"ratio": 2}, "details": {"engine": {"old": 1}, "models": {"old": 2}}}
    found = report.merged(before, "models", {"ratio": 3}, {"new": 3})
    assert found == {
        "engine": {"ratio": 1},
        "models": {"ratio": 3},
        "details": {"engine": {"old": 1}, "models": {"new": 3}},
    }
    assert before["models"] == {"ratio": 2}


def test_errors_are_those_of_the_parts_that_were_measured() -> None:
    found = {"details": {"engine": {"errors": {"a": "no"}}, "models": {"errors": {"b": "no"}}, "fairness": {}}}
    assert report.errors(found, ["models", "fairness"]) == ["models: b: no"]


def test_a_figure_that_is_missing_is_no_zero() -> None:
    row = report.Row("ratio", "", "", 3)
    assert [row.text(values) for values in ({"ratio": 0.0}, {"ratio": None}, {})] == ["0.000", "-", "-"]


def whole_report(**changes: Any) -> dict[str, Any]:
    machine = {"processor": "some", "cores": 2, "python": "3", "commit": "abc", "day": "today"}
    part = {"run": "then", "plan": asdict(FULL), "machine": machine, "errors": {}, **changes}
    values: dict[str, dict[str, Any]] = {name: {} for name in PARTS}
    values["engine"] = dict.fromkeys(engine.KEYS, 1234.5)
    values["peers"] = {"queue": {"jobs_per_s": 77.0, "error": "pick-up: no"}}
    return json.loads(json.dumps({**values, "details": dict.fromkeys(PARTS, part)}))  # type: ignore[no-any-return] # as it is read back


def test_the_page_shows_engine_and_peers_side_by_side() -> None:
    page = docs.page(whole_report())
    assert "| complete jobs | jobs/s | 1,234 | 77 |" in page
    assert "1,000,000 of them are in the table" in page
    assert "{" not in page.replace("{/*", "")


def test_the_page_shows_search_row_by_row() -> None:
    whole = whole_report(index_10000_build_s=12.0, index_10000_bytes=2**20)
    whole["search"] = [searched(10_000, "hnsw")]
    page = docs.page(whole)
    assert "| hnsw | hybrid | 10,000 | 0.991 | 1.50 | 2.50 | 1.25 | 1.00 | 1.50 | 0.75 |" in page
    assert "- 10,000 vectors: 12 s, 1 MB." in page
    assert f"{FULL.others} scopes of 1,000" in page


def test_the_page_is_written_of_one_full_run_alone() -> None:
    assert docs.why_not(whole_report(), PARTS) is None
    assert docs.why_not({}, ["engine"]) == "not measured: engine"
    assert docs.why_not(whole_report(plan=asdict(QUICK)), PARTS) == "not a run at full size"
    mixed = whole_report()
    mixed["details"]["models"] = {**mixed["details"]["models"], "run": "later"}
    assert docs.why_not(mixed, PARTS) == "not of one run, but of those begun at later, then"


@pytest.mark.parametrize("other", [["--quick"], ["--only", "models"]])
def test_docs_are_not_written_from_a_part(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--write-docs", *other])
    assert "--write-docs needs a full run" in capsys.readouterr().err


def test_peers_that_cannot_be_installed_say_why_in_their_rows() -> None:
    with pytest.raises(environment.EnvironmentUnusable) as raised:
        environment.run([sys.executable, "-c", "import sys; sys.exit('reading\\nno such package')"])
    found = peers.not_installed(raised.value)
    row = {"error": "cannot be installed: no such package"}
    assert found.values == {"procrastinate": row, "pgqueuer": row, "dbos": row}
    assert found.errors
    assert report.columns({"engine": {"ratio": 1.0}, "peers": found.values}) == {report.OURS: {"ratio": 1.0}} | dict(
        found.values
    )


def test_an_installer_that_is_not_there_is_no_crash() -> None:
    with pytest.raises(environment.EnvironmentUnusable, match="no-such-installer"):
        environment.run(["./no-such-installer"])


def test_every_package_of_the_peers_is_locked_by_hash() -> None:
    locked = environment.LOCK.read_text(encoding="utf-8").split("\n")
    pinned = [number for number, each in enumerate(locked) if "==" in each]
    assert {locked[number].split("==")[0] for number in pinned} >= {*peers.PEERS, "asyncpg", "matplotlib"}
    assert all("--hash=sha256:" in locked[number + 1] for number in pinned)

"""Measures the peers, each phase in a process of its own on a database of its own."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from benchmarks import ROOT
from benchmarks.peers.common import DSN
from benchmarks.peers.environment import PLACE, EnvironmentUnusable, interpreter
from benchmarks.plan import Plan
from benchmarks.server import fresh_database
from benchmarks.stats import median
from benchmarks.steps import Measured, Steps, in_order
from imgproc_adapters.postgres.embedded import EmbeddedPostgres

PEERS: Final = {
    "procrastinate": "benchmarks.peers.procrastinate_peer",
    "pgqueuer": "benchmarks.peers.pgqueuer_peer",
    "dbos": "benchmarks.peers.dbos_peer",
}
KEYS: Final = (
    *("jobs_per_s", "jobs_per_s_1m_finished", "jobs_per_s_200k_queued"),
    *("wal_bytes_per_job", "commits_per_job", "client_cpu_us_per_job", "server_cpu_us_per_job"),
    *("idle_pickup_ms_p50", "idle_pickup_ms_p99", "submit_per_s", "bulk_submit_per_s"),
)
_PATIENCE: Final = 1800


@define
class PeerRun:
    """All phases of one peer."""

    name: str
    python: Path
    server: EmbeddedPostgres
    plan: Plan
    values: dict[str, object] = field(factory=dict)
    details: dict[str, object] = field(factory=dict)
    steps: Steps = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.steps = Steps(self.name)

    def measure(self) -> Measured:
        best = self.plan.peer_concurrency[-1]
        with self.steps.step("complete jobs"):
            best = self._drains()
        with self.steps.step("idle pick-up"):
            self.values |= self._phase("pickup", samples=self.plan.peer_samples, concurrency=best)
        with self.steps.step("single submits"):
            self.values |= self._phase("single", jobs=self.plan.singles // 2)
        jobs, within = self.plan.peer_jobs, self.plan.within
        with self.steps.step(f"{self.plan.queued:,} queued jobs"):
            found = self._phase("drain", jobs=jobs, queued=self.plan.queued, within=within, concurrency=best)
            self.values["jobs_per_s_200k_queued"] = found["jobs_per_s"]
        with self.steps.step(f"{self.plan.finished:,} finished jobs"):
            found = self._phase("drain", jobs=jobs, finished=self.plan.finished, concurrency=best)
            self.values["jobs_per_s_1m_finished"] = found["jobs_per_s"]
        errors = {f"{self.name}, {step}": error for step, error in self.steps.errors.items()}
        return Measured(in_order(KEYS, self.values), self.details, errors)

    def _drains(self) -> int:
        """Measure at every concurrency; the best one is reported, and used from then on."""
        found: dict[int, list[dict[str, Any]]] = {each: [] for each in self.plan.peer_concurrency}
        for _ in range(self.plan.peer_rounds):
            for each, rounds in found.items():
                rounds.append(self._phase("drain", jobs=self.plan.peer_jobs, concurrency=each))
        medians = {each: medians_of(rounds) for each, rounds in found.items()}
        best = max(medians, key=lambda each: medians[each]["jobs_per_s"])
        self.details |= {
            "settings": found[best][0]["settings"],
            "concurrency": best,
            "jobs_per_s_by_concurrency": {str(each): values["jobs_per_s"] for each, values in medians.items()},
        }
        self.values |= medians[best]
        return best

    def _phase(self, phase: str, **options: object) -> dict[str, Any]:
        with fresh_database(self.server, f"{self.name}_{phase}", migrated=False) as database:
            command = [str(self.python), "-m", PEERS[self.name], phase]
            options["postmaster"] = database.postmaster
            command += [f"--{name}={value}" for name, value in options.items()]
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, DSN: database.dsn},
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_PATIENCE,
            )
        if done.returncode:
            raise RuntimeError(f"its script ended with exit code {done.returncode}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result


def medians_of(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the median of every figure; words are left out."""
    figures = [name for name, value in rounds[0].items() if not isinstance(value, str)]
    return {name: median([each[name] for each in rounds]) for name in figures}


def measure(server: EmbeddedPostgres, plan: Plan) -> Measured:
    """Measure one peer after the other. One that cannot be installed or fails has an ``error`` in its row."""
    steps = Steps("peers")
    values: dict[str, object] = {}
    details: dict[str, object] = {}
    errors = steps.errors
    try:
        python = interpreter()
    except EnvironmentUnusable as error:
        return not_installed(error)
    for name in PEERS:
        with steps.step(name):
            measured = PeerRun(name, python, server, plan).measure()
            failed = {"error": "; ".join(measured.errors.values())} if measured.errors else {}
            values[name] = {**measured.values, **failed}
            details[name] = measured.details
            errors |= measured.errors
    return Measured(values, {"versions": versions(), **details}, errors)


def not_installed(error: EnvironmentUnusable) -> Measured:
    """Return what is reported without the packages: every row says why it has no figures."""
    reason = f"cannot be installed: {error}"
    return Measured({name: {"error": reason} for name in PEERS}, {}, {"installation": reason})


def versions() -> dict[str, str]:
    """Return the version of every peer's package in the environment."""
    folders = [str(folder) for folder in PLACE.glob("lib/python*/site-packages")]
    found = {each.name.lower(): each.version for each in distributions(path=folders)}
    return {name: found.get(name, "not installed") for name in PEERS}

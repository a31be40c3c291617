"""The engine with instant stages, beside what the server can do at all."""

from typing import Final

from attrs import asdict, define, field, frozen

from benchmarks import limit
from benchmarks.drive import Drained, drain, drain_by_two, queue, take_from_queue
from benchmarks.finished import SMALL, finish
from benchmarks.pickup import PickUp, pick_up
from benchmarks.plan import Plan
from benchmarks.rig import CHUNK, LANES, Sizes
from benchmarks.server import fresh_database
from benchmarks.stats import median
from benchmarks.steps import Measured, Steps, in_order
from benchmarks.submitting import Copied, copy_limit, submit_each, submit_many
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
from imgproc_app import event_loop

KEYS: Final = (
    *("jobs_per_s", "jobs_per_s_2_processes", "limit_jobs_per_s", "ratio"),
    *("jobs_per_s_1m_finished", "jobs_per_s_200k_queued"),
    *("wal_bytes_per_job", "commits_per_job", "client_cpu_us_per_job", "server_cpu_us_per_job"),
    *("idle_pickup_ms_p50", "idle_pickup_ms_p99", "submit_per_s", "bulk_submit_per_s"),
)
COSTS: Final = ("wal_bytes_per_job", "commits_per_job", "client_cpu_us_per_job", "server_cpu_us_per_job")


@define
class EnginePart:
    """The steps of this part on one server, and what they found."""

    server: EmbeddedPostgres
    plan: Plan
    values: dict[str, object] = field(factory=dict)
    details: dict[str, object] = field(factory=dict)
    steps: Steps = field(factory=lambda: Steps("engine"))

    def measure(self) -> Measured:
        with self.steps.step("complete jobs, alternating with pgbench writing their rows"):
            self._beside_limit()
        with self.steps.step("complete jobs by two processes"):
            self._two_processes()
        with self.steps.step("idle pick-up"), fresh_database(self.server, "idle") as database:
            self._picked_up(event_loop.run(pick_up(database, self.plan.samples)))
        with self.steps.step("submits, and COPY of their rows"):
            self._submits()
        with self.steps.step(f"{self.plan.queued:,} queued jobs"):
            self._queued()
        with self.steps.step(f"{self.plan.finished:,} finished jobs"):
            self._finished()
        sizes = {name: getattr(self.plan, name) for name in ("jobs", "rounds", "samples", "queued", "finished")}
        made = {"vectors": asdict(Sizes()), "finished_vectors": asdict(SMALL), "lanes": dict(LANES), "bulk": CHUNK}
        return Measured(in_order(KEYS, self.values), {**sizes, **made, **self.details}, self.steps.errors)

    def _beside_limit(self) -> None:
        limits, rounds = [], []
        for number in range(self.plan.rounds):
            limits.append(self._limit(f"limit_{number}"))
            with fresh_database(self.server, f"engine_{number}") as database:
                rounds.append(event_loop.run(drain(database, self.plan.jobs)))
        limits.append(self._limit("limit_last"))
        self.values |= summary(limits, rounds)
        self.details |= {
            "limit_rounds": [asdict(each) for each in limits],
            "jobs_per_s_rounds": [each.jobs_per_s for each in rounds],
        }

    def _limit(self, name: str) -> "Limit":
        by_clients = {}
        for clients in limit.CLIENTS:
            with fresh_database(self.server, f"{name}_{clients}") as database:
                by_clients[clients] = limit.jobs_per_second(database, clients, self.plan.seconds)
        return Limit(by_clients[1], by_clients[2])

    def _two_processes(self) -> None:
        rates = []
        for number in range(self.plan.rounds):
            with fresh_database(self.server, f"two_{number}") as database:
                rates.append(event_loop.run(drain_by_two(database, self.plan.jobs)))
        self.values["jobs_per_s_2_processes"] = median([each.jobs_per_s for each in rates])
        self.details["jobs_per_s_2_processes_rounds"] = [asdict(each) for each in rates]

    def _picked_up(self, found: PickUp, suffix: str = "") -> None:
        into = self.details if suffix else self.values
        into |= {f"idle_pickup_ms_p50{suffix}": found.p50, f"idle_pickup_ms_p99{suffix}": found.p99}
        self.details[f"pickup_from_submit_ms_p50{suffix}"] = found.from_submit_p50
        self.details[f"pickup_from_submit_ms_p99{suffix}"] = found.from_submit_p99

    def _submits(self) -> None:
        singles, rates, limits = [], [], []
        for number in range(self.plan.rounds):
            with fresh_database(self.server, f"single_{number}") as database:
                singles.append(event_loop.run(submit_each(database, self.plan.singles)))
            with fresh_database(self.server, f"bulk_{number}") as database:
                rates.append(event_loop.run(submit_many(database, self.plan.bulk)))
                limits.append(copy_limit(database))
        self.values |= {"submit_per_s": median(singles), "bulk_submit_per_s": median(rates)}
        self._copied(limits)

    def _copied(self, limits: list[Copied]) -> None:
        self.details["copy_limit_per_s"] = median([each.jobs_per_s for each in limits])
        self.details["copy_rows_per_job"] = median([each.rows_per_job for each in limits])

    def _queued(self) -> None:
        with fresh_database(self.server, "queued") as database:
            self.details["bulk_submit_per_s_200k_queued"] = event_loop.run(queue(database, self.plan.queued))
            database.settle()
            jobs = min(self.plan.jobs, self.plan.queued // 2)
            rate = event_loop.run(take_from_queue(database, jobs, self.plan.within))
        self.values["jobs_per_s_200k_queued"] = rate

    def _finished(self) -> None:
        with fresh_database(self.server, "finished") as database:
            event_loop.run(finish(database, self.plan.finished))
            drained = [event_loop.run(drain(database, self.plan.jobs)) for _ in range(self.plan.rounds)]
            self.values["jobs_per_s_1m_finished"] = median([each.jobs_per_s for each in drained])
            for name in COSTS:
                self.details[f"{name}_1m_finished"] = median([each.costs[name] for each in drained])
            self._picked_up(event_loop.run(pick_up(database, self.plan.samples)), "_1m_finished")
            self.details["submit_per_s_1m_finished"] = event_loop.run(submit_each(database, self.plan.singles))
            self.details["bulk_submit_per_s_1m_finished"] = event_loop.run(submit_many(database, self.plan.bulk))


@frozen
class Limit:
    """Complete jobs a second written by pgbench with one and with two clients."""

    one_client: float
    two_clients: float

    @property
    def best(self) -> float:
        return max(self.one_client, self.two_clients)


def summary(limits: list[Limit], rounds: list[Drained]) -> dict[str, object]:
    """Return the medians of alternating rounds under the names of the report; the ratio is that of the medians."""
    jobs_per_s = median([each.jobs_per_s for each in rounds])
    most = median([each.best for each in limits])
    costs = {name: median([each.costs[name] for each in rounds]) for name in COSTS}
    return {"jobs_per_s": jobs_per_s, "limit_jobs_per_s": most, "ratio": jobs_per_s / most, **costs}


def measure(server: EmbeddedPostgres, plan: Plan) -> Measured:
    return EnginePart(server, plan).measure()

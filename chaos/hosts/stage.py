"""The run itself, played in the switch's namespace: ``python -m chaos.hosts.stage FOLDER RUN JOBS WORKERS SEED``.

It leaves what it found in ``figures.json`` in the folder, and every broken promise in ``offences.txt``.
"""

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from attrs import asdict

from chaos import history
from chaos.evidence import Evidence, Kind, Offence
from chaos.hosts import figures
from chaos.hosts.crew import LEDGERS, NAME, Crew, folders
from chaos.hosts.crowd import Crowd
from chaos.hosts.figures import Moments
from chaos.hosts.network import Network
from chaos.hosts.plan import CUT_FROM, CUT_OFF, SCOPES, SILENCE, SLOW, SLOW_FROM, WARM, WORKERS, Plan
from chaos.hosts.report import Outcome
from chaos.judge import judge
from chaos.plan import AGENT_LANE, ALLOW_ALL, BOUNDS, LEASE
from chaos.reading import connect, read_left
from chaos.worker import Order, deployment_of
from imgproc_adapters.postgres import invariants, migrate
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.testing.ledger import FileLedger
from imgproc_app import event_loop
from imgproc_domain.attempt import Replay
from imgproc_domain.job import JobStatus
from imgproc_domain.usecases.points import onwards

log = logging.getLogger(__name__)

REST_SECONDS: Final = 120.0
"""How long everything may take to come to rest once nothing goes wrong any more."""
WORK_SECONDS: Final = 900.0
_LOOK: Final = 0.2

_ENDED: Final = b"""
    SELECT count(*), extract(epoch FROM clock_timestamp())::float8
    FROM image_processing_jobs WHERE status NOT IN ('queued', 'running')
"""
_BUSY: Final = b"""
    SELECT EXISTS (SELECT FROM image_processing_jobs WHERE status IN ('queued', 'running'))
        OR EXISTS (SELECT FROM tasks WHERE status IN ('queued', 'running'))
        OR EXISTS (SELECT FROM grant_releases WHERE done_at IS NULL)
        OR EXISTS (SELECT FROM lane_slots WHERE scope_id IS NOT NULL AND (free_at IS NULL OR free_at > now()))
"""
_STRANDED: Final = b"""
    SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE %s AND datname = current_database()
"""


class Stage:
    """What a run is played on. ``stranded`` are connections of the silent host that the server still had at its end."""

    def __init__(self, plan: Plan, network: Network, folder: Path) -> None:
        self.plan = plan
        self.network = network
        self.folder = folder
        self.crew = Crew(plan, network, folder)
        self.dsn = ""
        self.stranded = 0
        self.fenced_before = 0
        self.crowd: Crowd
        self.moments: Moments

    async def play(self) -> Outcome:
        begun = time.monotonic()
        try:
            await self._set_up()
            await self._submit()
            await self.crew.start_line()
            await self.crew.start_workers()
            self.moments = await self._go_wrong()
            at_rest = await self._come_to_rest()
            await self.crew.stop_workers()
            offences = [*await asyncio.to_thread(self._judge), *await self._check(quiescent=at_rest)]
            return self._outcome(offences, time.monotonic() - begun)
        finally:
            await self.crew.close()

    async def _set_up(self) -> None:
        await self.crew.start_database()
        maintenance = self.crew.dsn("postgres", "stage")
        self.dsn = self.crew.dsn(NAME, "stage")

        def create() -> None:
            with psycopg.connect(maintenance, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {NAME}".encode())
            migrate.upgrade(self.dsn)
            history.install(self.dsn)

        await asyncio.to_thread(create)

    async def _submit(self) -> None:
        engine = open_engine(self.dsn, pool_size=2, limits=BOUNDS)
        try:
            order = Order("people", self.folder, self.dsn, ALLOW_ALL, Replay.LOOKUP, f"{self.plan.seed}/people")
            self.crowd = Crowd(self.plan, deployment_of(order, engine, onwards), self.dsn)
            await self.crowd.submit_all()
        finally:
            await engine.dispose()

    async def _go_wrong(self) -> Moments:
        """Let one host become slow and one fall silent while there is work, each at its share of the jobs."""
        warm = await self._reach(WARM)
        slow = await self._reach(SLOW_FROM)
        await self.crew.slow_down()
        cut = await self._reach(CUT_FROM)
        self.fenced_before = self._fenced()[CUT_OFF]
        await asyncio.to_thread(self.network.cut, CUT_OFF)
        log.info("%s is cut off", CUT_OFF)
        await asyncio.sleep(SILENCE.total_seconds())
        ((self.stranded,),) = await self._rows(_STRANDED, f"{CUT_OFF}.%")
        ((_, mended),) = await self._rows(_ENDED)
        await asyncio.to_thread(self.network.mend, CUT_OFF)
        log.info("%s is back", CUT_OFF)
        end = await self._reach(1.0)
        return Moments(warm, slow, cut, mended, end)

    async def _reach(self, share: float) -> float:
        """Wait until this share of the jobs has ended, and return the database's time."""
        async with asyncio.timeout(WORK_SECONDS):
            while True:
                ((ended, now),) = await self._rows(_ENDED)
                if ended >= self.plan.jobs * share:
                    log.info("%d jobs have ended", ended)
                    return float(now)
                await asyncio.sleep(_LOOK)

    async def _come_to_rest(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                while (await self._rows(_BUSY)) != [(False,)]:  # noqa: ASYNC110 - a database sends no event here
                    await asyncio.sleep(_LOOK)
                return True
        return False

    async def _rows(self, query: bytes, *values: object) -> list[Any]:
        def look() -> list[Any]:
            with connect(self.dsn) as connection:
                return connection.execute(query, values or None).fetchall()

        return await asyncio.to_thread(look)

    def _judge(self) -> list[Offence]:
        left = read_left(self.dsn, SCOPES)
        self.history = list(history.read(self.dsn))
        self.jobs = Counter(job.status for view in left.views for job in view.jobs)
        evidence = Evidence(
            views=left.views,
            calls=[call for name in LEDGERS for call in FileLedger(self.folder / name).calls()],
            history=self.history,
            promised=self.crowd.promised,
            texts=self.crowd.texts,
            pending=left.pending,
            reserved=left.reserved,
            clock=self._clock(),
            lane=AGENT_LANE,
            quota=False,
        )
        return list(judge(evidence))

    def _clock(self) -> float:
        """Return the database's clock minus the monotonic one, in seconds."""
        with connect(self.dsn) as connection:
            before = time.monotonic()
            ((now,),) = connection.execute(b"SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
            return float(now) - (before + time.monotonic()) / 2

    async def _check(self, *, quiescent: bool) -> list[Offence]:
        report = await invariants.check(self.dsn, quiescent=quiescent)
        return [Offence(Kind.INVARIANT, line) for line in report.lines()]

    def _fenced(self) -> Counter[str]:
        """Return how many write-backs of each host were rejected."""
        counts: Counter[str] = Counter()
        for host, own in folders(self.folder):
            path = own / "fenced.jsonl"
            counts[host] = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
        return counts

    def _outcome(self, offences: Sequence[Offence], seconds: float) -> Outcome:
        (self.folder / "offences.txt").write_text("".join(f"{each}\n" for each in offences), encoding="utf-8")
        at, changes, lease = self.moments, self.history, LEASE.total_seconds()
        followed = figures.takeover(changes, CUT_OFF, at.cut, lease)
        others = [host for host in WORKERS if host not in {SLOW, CUT_OFF}]
        others_and_cut = [*others, CUT_OFF]
        fenced = self._fenced()
        found = Counter(offence.kind for offence in offences)
        return Outcome(
            jobs=self.jobs.total(),
            succeeded=self.jobs[JobStatus.SUCCEEDED],
            failed=self.jobs[JobStatus.FAILED],
            unknown=self.jobs[JobStatus.UNKNOWN],
            tasks_by_host=dict(figures.done(changes, 0, at.end)),
            tasks_by_host_before=dict(figures.done(changes, at.warm, at.slow)),
            tasks_by_host_slow=dict(figures.done(changes, at.slow, at.cut)),
            seconds_before=round(at.slow - at.warm, 2),
            seconds_slow=round(at.cut - at.slow, 2),
            others_per_s_before=round(figures.rate(changes, others_and_cut, at.warm, at.slow), 1),
            others_per_s_slow=round(figures.rate(changes, others_and_cut, at.slow, at.cut), 1),
            others_per_s_cut=round(figures.rate(changes, others, at.cut, at.mended), 1),
            delayed_by="netem" if self.crew.netem else "relay",
            silence=round(at.mended - at.cut, 2),
            lease=lease,
            held_at_cut=followed.held,
            kept=followed.kept,
            taken_over=len(followed.seconds),
            takeover_s_median=followed.median and round(followed.median, 2),
            takeover_s_max=followed.longest and round(followed.longest, 2),
            landed_late=followed.landed,
            written_in_silence=figures.written(changes, CUT_OFF, at.cut + lease, at.mended),
            tasks_after_mending=figures.done(changes, at.mended, at.end + 1).get(CUT_OFF, 0),
            stranded_connections=self.stranded,
            fencing_rejections=fenced.total(),
            fencing_rejections_cut_off=fenced[CUT_OFF] - self.fenced_before,
            seconds=round(seconds, 1),
            crashes=tuple(self.crew.crashes),
            **{kind.value: found[kind] for kind in Kind},
        )


async def _play(stage: Stage) -> Outcome:
    """Play, and end in order at Ctrl-C and at SIGTERM."""
    playing, loop = asyncio.create_task(stage.play()), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        # Ctrl-C may come twice, from the terminal and from the process that started this one
        for number in signals:
            loop.add_signal_handler(number, lambda: None)
        playing.cancel()

    for number in signals:
        loop.add_signal_handler(number, end)
    return await playing


def main(folder: Path, run: int, plan: Plan) -> int:
    logging.basicConfig(filename=folder / "stage.log", level=logging.INFO, format="%(asctime)s %(message)s")
    stage = Stage(plan, Network(run), folder)
    with contextlib.suppress(asyncio.CancelledError):
        outcome = event_loop.run(_play(stage))
        (folder / "figures.json").write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")
        return 0
    return 1


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[2:]]
    sys.exit(main(Path(sys.argv[1]), numbers[0], Plan(*numbers[1:])))

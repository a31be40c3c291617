"""One run: begin, let everything go wrong, let it come to rest, and collect what is left."""

import asyncio
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

from chaos import history
from chaos.evidence import Evidence, Kind, Offence
from chaos.faults import Faults
from chaos.fleet import Fleet
from chaos.judge import judge
from chaos.judge_calls import agent_calls, most_at_once
from chaos.people import People, patiently
from chaos.plan import AGENT_LANE, BOUNDS, QUOTA, SCOPES, Plan
from chaos.proxy import Proxy
from chaos.reading import connect, read_left
from chaos.report import Outcome
from chaos.server import ChaosServer
from chaos.watch import Watch
from chaos.worker import Order, deployment_of
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.testing.ledger import FileLedger
from imgproc_domain.attempt import Replay
from imgproc_domain.job import JobStatus
from imgproc_domain.usecases.points import onwards

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 120.0
"""How long everything may take to come to rest once nothing goes wrong any more."""

_SAY_SECONDS: Final = 5.0
_HEAD_START: Final = 100
_HEAD_START_SHARE: Final = 0.015
_ACTS_A_BATCH: Final = 2


async def run(plan: Plan, server: ChaosServer, folder: Path) -> tuple[Outcome, Sequence[Offence]]:
    """Do a run in a database of its own and return its figures, and what it broke."""
    begun = time.monotonic()
    database = f"chaos_{plan.policy}"
    await asyncio.to_thread(server.create, database)
    await asyncio.to_thread(history.install, server.dsn(database))
    stage = _Stage(plan, server, folder, database)
    await stage.play()
    evidence = await stage.evidence()
    offences = [*judge(evidence), *stage.watch.offences(), *stage.left_alive]
    return _outcome(stage, evidence, offences, time.monotonic() - begun), offences


class _Stage:
    """What a run is played on."""

    def __init__(self, plan: Plan, server: ChaosServer, folder: Path, database: str) -> None:
        dice = random.Random(f"{plan.seed}/{plan.policy}")
        self.plan = plan
        self.server = server
        self.folder = folder
        self.database = database
        self.proxy = Proxy(lambda: server.port)
        self.fleet = Fleet(plan, folder, random.Random(dice.random()))
        self.faults = Faults(plan, self.fleet, server, self.proxy, random.Random(dice.random()))
        self.watch = Watch(self.direct)
        self.dice = random.Random(dice.random())
        self.people: People
        self.left_alive: list[Offence] = []
        self._ahead = max(_HEAD_START, plan.jobs * _HEAD_START_SHARE)
        self._created = 0
        self._live = 0

    def direct(self) -> str:
        """Return the way past all proxies; a server that was started again may listen elsewhere."""
        return self.server.dsn(self.database)

    def _way(self, port: int, name: str) -> str:
        return self.server.dsn(self.database, port, name)

    async def play(self) -> None:
        port = await self.proxy.start()
        dsn = self.server.dsn(self.database, port, "people")
        engine = open_engine(dsn, pool_size=4, pool_timeout=5.0, limits=BOUNDS)
        order = Order("people", self.folder, dsn, self.plan.policy, Replay.NEVER, "people")
        self.people = People(self.plan, deployment_of(order, engine, onwards), self.direct, self.dice)
        await self.people.settle_in()
        await self.fleet.start(lambda: self.server.port, self._way)
        watching = asyncio.create_task(self.watch.run())
        saying = asyncio.create_task(self._say())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.faults.run(self._behind))
                group.create_task(self._submit())
            (self.folder / "calm").touch()
            await self._come_to_rest()
        finally:
            watching.cancel()
            saying.cancel()
            await asyncio.gather(watching, saying, return_exceptions=True)
            await self.fleet.close()
            await engine.dispose()
            await self.proxy.close()
        await self.watch.check(quiescent=not self.left_alive)

    async def _say(self) -> None:
        """Tell the log how it goes."""
        while True:
            await asyncio.sleep(_SAY_SECONDS)
            done = self.fleet.kills, self.fleet.stops, self.faults.restarts, self.faults.cuts
            log.info("%.3f: %d jobs, %d live; %s", self.faults.progress, self._created, self._live, done)

    def _behind(self) -> bool:
        """Whether the work is so far behind the faults that these have to wait."""
        return self._created - self._live < self.faults.progress * self.plan.jobs - 2 * self._ahead

    async def _submit(self) -> None:
        """Keep the number of jobs in step with the faults, so that there is work for each of them, and none left."""
        while self._created < self.plan.jobs:
            self._created, self._live = await self.people.count()
            if self._created < min(self.plan.jobs * self.faults.progress + self._ahead, self.plan.jobs):
                await self.people.submit_more()
                for _ in range(self.dice.randint(0, _ACTS_A_BATCH)):
                    await self.people.act()
            else:
                await asyncio.sleep(0.1)
        while self.faults.progress < 1.0:
            self._created, self._live = await self.people.count()
            await asyncio.sleep(0.1)

    async def _come_to_rest(self) -> None:
        """Wait until nothing is live, no release waits and no slot is held; what never is, is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                while await self._busy():
                    self._created, self._live = await self.people.count()
                    await asyncio.sleep(0.2)
                return
        told = f"{await self._busy()} rows are still waiting {QUIET_SECONDS:g} s after the last fault"
        self.left_alive.append(Offence(Kind.LOST, told))

    async def _busy(self) -> int:
        def count() -> int:
            with psycopg.connect(self.direct(), autocommit=True) as connection:
                row = connection.execute(_BUSY).fetchone()
                return int(row[0]) if row else 0

        found: int = await patiently(asyncio.to_thread, count)
        return found

    async def evidence(self) -> Evidence:
        def collect() -> Evidence:
            left = read_left(self.direct(), SCOPES)
            calls = [c for name in ("agent", "local") for c in FileLedger(self.folder / f"{name}.jsonl").calls()]
            return Evidence(
                views=left.views,
                calls=calls,
                history=list(history.read(self.direct())),
                promised=self.people.promised,
                texts=self.people.known_texts(),
                pending=left.pending,
                reserved=left.reserved,
                clock=_clock(self.direct()),
                lane=AGENT_LANE,
                quota=self.plan.policy == QUOTA,
            )

        return await asyncio.to_thread(collect)


_BUSY: Final = b"""
    SELECT (SELECT count(*) FROM image_processing_jobs WHERE status IN ('queued', 'running'))
        + (SELECT count(*) FROM tasks WHERE status IN ('queued', 'running'))
        + (SELECT count(*) FROM grant_releases WHERE done_at IS NULL)
        + (SELECT count(*) FROM lane_slots WHERE scope_id IS NOT NULL AND (free_at IS NULL OR free_at > now()))
"""


def _clock(dsn: str) -> float:
    """Return the database's clock minus the monotonic one, in seconds."""
    with connect(dsn) as connection:
        before = time.monotonic()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        after = time.monotonic()
    assert row is not None, "a SELECT without FROM has a row"
    return float(row[0]) - (before + after) / 2


def _outcome(stage: _Stage, evidence: Evidence, offences: Sequence[Offence], seconds: float) -> Outcome:
    statuses = Counter(job.status for view in evidence.views for job in view.jobs)
    fenced = stage.folder / "fenced.jsonl"
    found = Counter(offence.kind for offence in offences)
    made, _ = agent_calls(evidence)
    fleet, faults = stage.fleet, stage.faults
    return Outcome(
        jobs=statuses.total(),
        kills=fleet.kills,
        stops=fleet.stops,
        restarts=faults.restarts,
        cuts=faults.cuts,
        succeeded=statuses[JobStatus.SUCCEEDED],
        unknown=statuses[JobStatus.UNKNOWN],
        fencing_rejections=len(fenced.read_text(encoding="utf-8").splitlines()) if fenced.exists() else 0,
        lost=found[Kind.LOST],
        double_calls=found[Kind.DOUBLE_CALL],
        silent_replays=found[Kind.SILENT_REPLAY],
        stale_writes=found[Kind.STALE_WRITE],
        leaked_grants=found[Kind.LEAKED_GRANT],
        leaked_slots=found[Kind.LEAKED_SLOT],
        broken_invariants=found[Kind.INVARIANT],
        seconds=round(seconds, 1),
        failed=statuses[JobStatus.FAILED],
        blocked=statuses[JobStatus.BLOCKED],
        kills_at_points=fleet.kills_at_points,
        stops_at_points=fleet.stops_at_points,
        partitions=faults.partitions,
        naps=faults.naps,
        agent_calls=len(made),
        most_in_flight=most_at_once(made, evidence.clock),
        history=len(evidence.history),
        looks=stage.watch.looks,
        crashes=tuple(fleet.crashes),
        points=dict(fleet.points().most_common()),
        people=dict(sorted(stage.people.acts.items())),
    )


def keep(folder: Path, offences: Sequence[Offence], outcome: Outcome) -> None:
    """Leave what is needed to look into a failure beside the ledger and the logs."""
    lines = "".join(f"{offence}\n" for offence in offences)
    (folder / "offences.txt").write_text(lines, encoding="utf-8")
    (folder / "outcome.json").write_text(json.dumps(outcome.figures(), indent=2) + "\n", encoding="utf-8")

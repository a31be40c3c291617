"""`imgproc unknown`: an operator finds, looks at and closes executions of which nobody knows the outcome."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import frozen

from imgproc_adapters.postgres.dispatch import PostgresDispatch
from imgproc_adapters.postgres.engine import open_engine
from imgproc_adapters.postgres.uow import PostgresUnitOfWork
from imgproc_adapters.system import SystemIds
from imgproc_adapters.testing.decoder import ScriptedDecoder
from imgproc_adapters.testing.models import NOTHING_KNOWN, ScriptedAgent, ScriptedTextModel, ScriptedVisualModel
from imgproc_adapters.testing.names import NameBlobs
from imgproc_adapters.testing.observer import RecordingObserver
from imgproc_adapters.testing.policy import RememberingPolicy
from imgproc_adapters.testing.seed import OWNER
from imgproc_domain.scope import LOCAL
from imgproc_domain.settlement import Settling
from imgproc_domain.stage import Lane, ReverseImagePolicy, TaskType
from imgproc_domain.usecases.claim import claim_tasks
from imgproc_domain.usecases.deployment import Deployment
from imgproc_domain.usecases.ingest import upload
from imgproc_domain.usecases.perform import perform
from imgproc_domain.usecases.reconcile import reconcile_due
from imgproc_domain.usecases.settle import settle
from imgproc_domain.usecases.start import start

from .terminal import Imgproc, environment

SAID = ("--reason", "nothing was billed", "--evidence", "no such request in the console")
SURE = ("--owner-dead", "--call-over")


async def _content() -> AsyncIterator[bytes]:
    yield b"cat"


async def lose_a_call(dsn: str, *, pooled: bool) -> str:
    """Process a picture up to an agent call of which nothing is known, and return the id of its task."""
    engine = open_engine(dsn, pooler=pooled)
    agent = ScriptedAgent(hard_deadline=timedelta(hours=1))
    deployment = Deployment(
        uow=PostgresUnitOfWork(engine),
        blobs=NameBlobs(),
        decoder=ScriptedDecoder(),
        visual=ScriptedVisualModel(),
        agent=agent,
        text=ScriptedTextModel(),
        policy=RememberingPolicy(),
        ids=SystemIds(),
        observer=RecordingObserver(),
    )
    agent.script.then(NOTHING_KNOWN)
    async with deployment.uow.begin(LOCAL) as tx:
        await tx.slots.resize(Lane.AGENT, 1)
    await upload(deployment, LOCAL, "cat.png", _content(), ReverseImagePolicy.FORBID)
    for kind in (TaskType.VISUAL, TaskType.CONTEXT):
        await reconcile_due(deployment, PostgresDispatch(engine), LOCAL, OWNER, 1)
        claimed = await claim_tasks(deployment, LOCAL, kind, 1, OWNER)
        (execution,) = (await start(deployment, LOCAL, claimed)).running
        assert execution.attempt is not None
        outcome = await perform(deployment, execution)
        await settle(deployment, LOCAL, [Settling(execution.claim, execution.attempt.attempt_id, outcome)])
    await engine.dispose()
    return str(execution.task.task_id)


@frozen
class Desk:
    """What an operator sits at, and the one execution that nobody knows the outcome of."""

    imgproc: Imgproc
    task_id: str


@pytest.fixture
def desk(database: str, pooled: bool, tmp_path: Path) -> Desk:
    settings = environment(IMGPROC_DSN=database, IMGPROC_POOLER=str(int(pooled)))
    return Desk(Imgproc(tmp_path / "data", settings), asyncio.run(lose_a_call(database, pooled=pooled)))


def test_an_operator_finds_looks_at_and_closes_an_unknown_execution(desk: Desk) -> None:
    imgproc, task_id = desk.imgproc, desk.task_id
    listed = imgproc.json("unknown", "list")
    (found,) = listed.document["executions"]
    assert (listed.code, listed.document["unresolved"], found["task_id"]) == (1, 1, task_id)
    assert (found["filename"], found["may_be_running"], found["resolution"]) == ("cat.png", True, None)
    assert [slot["free_at"] for slot in found["slots_held"]] == [found["hard_deadline_at"]]
    early = imgproc.json("unknown", "resolve", task_id, *SAID, SURE[0])
    assert (early.code, early.document["error"]) == (2, "call_may_be_running")

    resolved = imgproc.json("unknown", "resolve", task_id, *SAID, *SURE, "--by", "the night shift")
    assert (resolved.code, resolved.document["resolved_by"]) == (0, "the night shift")
    shown = imgproc.json("unknown", "show", task_id).document
    assert shown["resolution"].items() <= resolved.document.items()
    assert (shown["may_be_running"], shown["slots_held"], shown["late_results"]) == (False, [], [])
    assert [attempt["status"] for attempt in shown["attempts"]] == ["unknown_execution"]
    assert shown["grant"]["status"] == "unknown"
    assert shown["newest_job"]["job_id"] == resolved.document["retryable_job_id"] == found["job_id"]

    again = imgproc.json("unknown", "resolve", task_id, *SAID, *SURE)
    assert (again.code, again.document["error"]) == (2, "execution_already_resolved")
    closed = imgproc.json("unknown", "list")
    assert (closed.code, closed.document) == (0, {"unresolved": 0, "executions": []})
    history = imgproc.json("unknown", "list", "--all")
    assert (history.code, len(history.document["executions"])) == (0, 1)


def test_a_person_reads_tables_and_is_told_how_to_try_again(desk: Desk) -> None:
    imgproc, task_id = desk.imgproc, desk.task_id
    listed = imgproc.run("unknown", "list")
    assert listed.code == 1
    assert task_id in listed.out
    assert "may be running until" in listed.out
    (attempt,) = imgproc.json("unknown", "show", task_id).document["attempts"]
    shown = imgproc.run("unknown", "show", task_id)
    assert all(attempt[name] in shown.out for name in ("attempt_id", "request_id", "session_id"))
    resolved = imgproc.run("unknown", "resolve", task_id, *SAID, *SURE)
    assert resolved.out == f"{task_id}: resolved\n"
    assert "'imgproc retry " in resolved.err
    assert "no such request in the console" in imgproc.run("unknown", "show", task_id).out
    nothing = imgproc.run("unknown", "list")
    assert (nothing.code, nothing.out) == (0, "there is no unknown execution that nobody resolved\n")


def test_what_is_no_unknown_execution_is_one_red_line(desk: Desk) -> None:
    for command in ("show", "resolve"):
        said = SAID if command == "resolve" else ()
        unknown = desk.imgproc.run("unknown", command, str(uuid4()), *said)
        assert unknown.code == 2
        assert unknown.err.splitlines()[0] == "error: there is no such task"

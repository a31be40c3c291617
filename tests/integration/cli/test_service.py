"""The service and the worker start, survive, and stop as they should."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from attrs import frozen

from imgproc_adapters.postgres.embedded import EmbeddedPostgres

from .terminal import SAMPLES, Imgproc, Started, copied, environment, eventually

EXECUTED = """
    SELECT t.status, array_agg(a.status ORDER BY a.attempt_no), bool_or(a.created_at > t.completed_at)
    FROM tasks t JOIN task_attempts a USING (scope_id, task_id) GROUP BY t.scope_id, t.task_id
"""
PICTURES = ("bee.jpg", "macaw.jpg", "coffee-loading.jpg")


@pytest.fixture(scope="module")
def imgproc(tmp_path_factory: pytest.TempPathFactory) -> Imgproc:
    # short leases and calls, so that the work of a killed process is taken over soon
    settings = environment(IMGPROC_LEASE_SECONDS="3", IMGPROC_POLL_SECONDS="0.2", IMGPROC_AGENT_SECONDS="20")
    return Imgproc(tmp_path_factory.mktemp("cli") / "data", settings)


def upload(url: str, name: str) -> Any:
    answer = httpx.post(f"{url}/images", files={"files": (name, (SAMPLES / name).read_bytes())}, timeout=60)
    return answer.json()


def counts(imgproc: Imgproc) -> Any:
    return imgproc.json("status").document["pictures"]


@frozen
class Executed:
    """A task, its attempts in their order, and whether one of them began after the task had succeeded."""

    status: str
    attempts: list[str]
    repeated: bool


def executed(imgproc: Imgproc) -> list[Executed]:
    """Return every task there is, as the database has it."""
    with EmbeddedPostgres(imgproc.data_dir / "postgres") as server, psycopg.connect(server.dsn()) as connection:
        return [Executed(*row) for row in connection.execute(EXECUTED)]


def test_a_service_killed_at_work_leaves_nothing_behind_and_nothing_undone(
    imgproc: Imgproc, start: Callable[..., Started]
) -> None:
    first = start("serve", "--port", "0")
    url = first.ready()["url"]
    for name in PICTURES:
        upload(url, name)
    children = psutil.Process(first.process.pid).children(recursive=True)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    psutil.wait_procs(children, timeout=60)
    assert not [child for child in children if child.is_running()]

    second = start("serve", "--port", "0")
    url = second.ready()["url"]
    assert httpx.get(f"{url}/health/ready", timeout=60).json() == {"status": "ready"}

    def all_done() -> bool:
        jobs = httpx.get(f"{url}/images/processing", timeout=60).json()
        return all(job["status"] == "succeeded" for job in jobs["items"])

    eventually(all_done, "every picture succeeds after the restart")
    tasks = executed(imgproc)
    assert [task.status for task in tasks] == ["succeeded"] * 3 * len(PICTURES)
    # each was completed once, by its last attempt; one before it was lost with the service
    assert all(task.attempts == ["failed"] * (len(task.attempts) - 1) + ["completed"] for task in tasks)
    assert not any(task.repeated for task in tasks)
    # an attached second process works beside the service
    assert counts(imgproc)["succeeded"] == len(PICTURES)
    taken = imgproc.run("serve", "--port", url.rsplit(":", 1)[1])
    assert taken.code == 2
    assert "--port" in taken.err
    assert second.stop(signal.SIGINT) == 0
    assert "Traceback" not in second.said()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health/live")


def test_a_worker_alone_does_what_was_only_submitted(
    imgproc: Imgproc, start: Callable[..., Started], tmp_path: Path
) -> None:
    copied(("sheep-haircut.jpg",), tmp_path / "new")
    submitted = imgproc.json("import", str(tmp_path / "new"), "--no-wait")
    assert (submitted.code, submitted.lines[-1]["summary"]["imported"]) == (0, 1)
    before = imgproc.json("status").document
    assert before["no_worker"]
    done = before["pictures"]["succeeded"]
    worker = start("worker")
    owned = worker.ready()["owns"]
    assert [item["lane"] for item in owned] == ["visual", "agent", "text"]
    eventually(lambda: bool(counts(imgproc)["succeeded"] == done + 1), "the worker processes what waits")
    assert worker.stop(signal.SIGTERM) == 0
    assert "Traceback" not in worker.said()


def test_an_interrupted_import_ends_in_order_and_goes_on_later(
    imgproc: Imgproc, start: Callable[..., Started], tmp_path: Path
) -> None:
    copied(("owl-overtime.jpg", "panda-diet.jpg"), tmp_path / "more")
    interrupted = start("import", str(tmp_path / "more"))
    assert interrupted.ready()["outcome"] == "imported"
    assert interrupted.stop(signal.SIGINT) == 130
    assert "run the same command again" in interrupted.said()
    again = imgproc.json("import", str(tmp_path / "more"))
    summary = again.lines[-1]["summary"]
    assert again.code == 0
    assert summary["imported"] + summary["present"] == 2
    assert summary["jobs"] == {"succeeded": 2}


def test_the_first_signal_is_heard_while_the_service_starts(start: Callable[..., Started]) -> None:
    service = start("serve", "--port", "0")
    eventually(lambda: "starting" in service.said(), "the service says that it starts")
    assert service.stop(signal.SIGTERM) == 0
    assert service.said().splitlines()[-1] == "stopped"


def test_an_address_of_another_machine_is_refused_in_one_line(imgproc: Imgproc) -> None:
    refused = imgproc.run("serve", "--host", "192.0.2.1")
    assert refused.code == 2
    assert refused.err.startswith("error: cannot listen on 192.0.2.1")


def test_a_taken_port_is_named_before_anything_is_started(tmp_path: Path) -> None:
    elsewhere = Imgproc(tmp_path / "unused", environment())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = elsewhere.run("serve", "--port", str(taken.getsockname()[1]))
    assert refused.code == 2
    assert not os.path.lexists(tmp_path / "unused")

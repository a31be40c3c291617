"""Put the clock of a process wrong, before anything else is imported: this module imports nothing but clocks.

Where libfaketime is installed it does that from outside; elsewhere the functions that read the clock are replaced.
"""

import datetime as dt
import time
from pathlib import Path
from typing import Any

LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def environment(seconds: int) -> dict[str, str]:
    """Return the variables by which libfaketime shifts a new process's clock; none where it is not installed."""
    found = sorted(path for place in LIBRARIES for path in Path(place).glob("**/faketime/libfaketime.so.1"))
    if not found:
        return {}
    # what is measured by the monotonic clock, as leases and deadlines here are, goes on as it does
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def replace(seconds: int) -> None:
    """Shift what this process reads of its clock."""
    real, real_ns, real_local, real_utc = time.time, time.time_ns, time.localtime, time.gmtime
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + seconds * 1_000_000_000
    time.localtime = lambda at=None: real_local(time.time() if at is None else at)
    time.gmtime = lambda at=None: real_utc(time.time() if at is None else at)
    dt.datetime = _shifted(dt.datetime)  # type: ignore[misc]  # the point of it


def _shifted(real: type[dt.datetime]) -> type[dt.datetime]:
    class Meta(type):
        """C code makes values of the real type: they count as well."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Shifted(real, metaclass=Meta):  # type: ignore[misc, valid-type]  # as above
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return real.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return real.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return real.fromtimestamp(time.time())

    Shifted.__name__ = Shifted.__qualname__ = "datetime"
    Shifted.__module__ = "datetime"
    return Shifted

"""Wall clocks that are off, while monotonic ones stay true: results may depend on neither."""

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any, Final

_LIBRARIES: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_PLACES: Final = ("faketime/libfaketime.so.1", "*/faketime/libfaketime.so.1")


def faketime() -> Path | None:
    """Return the library that shifts a process's clock for everything in it, where it is installed."""
    found = (path for folder in _LIBRARIES for place in _PLACES for path in Path(folder).glob(place))
    return next(found, None)


def environment(seconds: int) -> dict[str, str]:
    """Return what a process has to be started with so that its wall clock is off by so many seconds, if possible."""
    library = faketime()
    if library is None or seconds == 0:
        return {}
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def way() -> str:
    return "libfaketime" if faketime() else "Python's clocks replaced"


def shift(seconds: int) -> None:
    """Shift this process's clocks, unless its environment did: before anything else takes hold of them."""
    if seconds and "FAKETIME" not in os.environ:
        _replace(seconds)


def _replace(seconds: int) -> None:
    true_time, true_ns, true = time.time, time.time_ns, dt.datetime
    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_ns() + seconds * 1_000_000_000

    class Kind(type):
        """Takes every true datetime for one of its own, as those who look only want to know what it is."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, true)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, true)

    class Shifted(true, metaclass=Kind):  # type: ignore[misc, valid-type]  # the class is what is being replaced
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return true.now(tz) + dt.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls) -> Any:
            return true.now(dt.UTC).replace(tzinfo=None) + dt.timedelta(seconds=seconds)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    dt.datetime = Shifted  # type: ignore[misc]  # as above

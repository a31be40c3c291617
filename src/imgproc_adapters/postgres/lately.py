"""What was found out lately, and is not asked again at once."""

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST: Final = 10_000


class Lately(Generic[K, V]):
    """A small, forgetful memory of one process: a value is known for some seconds, of at most ``most`` keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        found = self._known.get(key)
        return found[1] if found is not None and self._clock() < found[0] else None

    def put(self, key: K, value: V, seconds: float) -> None:
        # whoever was put first goes first: it is the next to be out of date
        self._known.pop(key, None)
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._clock() + seconds, value)

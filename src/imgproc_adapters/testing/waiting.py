"""Wait for what another process or task brings about, where there is no event to wait for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from imgproc_adapters.testing.observer import PATIENCE

T = TypeVar("T")

_LOOK_AGAIN: Final = 0.02


async def until(look: Callable[[], Awaitable[T | None]], patience: float = PATIENCE) -> T:
    """Return the first value that ``look`` finds; raises `TimeoutError` when patience ends."""
    async with asyncio.timeout(patience):
        while (found := await look()) is None:  # noqa: ASYNC110 - what is waited for sends no event
            await asyncio.sleep(_LOOK_AGAIN)
        return found

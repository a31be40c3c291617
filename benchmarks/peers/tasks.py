"""Coroutines that run beside a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def cancelled(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run ``work`` for the length of the block, and cancel it then; its own errors end the block."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            await task
            raise RuntimeError("the worker ended by itself")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

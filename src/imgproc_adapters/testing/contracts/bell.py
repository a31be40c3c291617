"""Hints that there is work."""

import asyncio

import pytest

from imgproc_adapters.testing.seed import A, B, rolled_back
from imgproc_adapters.testing.world import World
from imgproc_domain.ports.wakeups import Listener, Topic

AT_ONCE = 0.0
LONG = 30.0
"""Seconds that no test waits for in full: a wait of this length ends with what it waits for."""


async def _heard(listener: Listener, topics: set[Topic]) -> set[Topic]:
    """Wait until all these topics were heard, in one hint or several, and return everything that was."""
    heard: set[Topic] = set()
    async with asyncio.timeout(LONG):
        while not topics <= heard:
            heard.update(await listener.wait(LONG))
    return heard


class BellContract:
    """For adapters that can give hints; polling alone is allowed by the port but is not this suite."""

    pytestmark = pytest.mark.asyncio

    async def test_a_commit_wakes_a_listener_with_its_topics(self, world: World) -> None:
        listener = world.listener()
        await listener.start()
        try:
            waiting = asyncio.create_task(_heard(listener, {Topic.JOBS, Topic.VISUAL}))
            async with world.uow.begin(A) as tx:
                await tx.bell.ring([Topic.JOBS])
                await tx.bell.ring([Topic.VISUAL, Topic.JOBS])
            await waiting
        finally:
            await listener.close()

    async def test_a_rollback_wakes_nobody(self, world: World) -> None:
        listener = world.listener()
        await listener.start()
        try:
            async with rolled_back(world) as tx:
                await tx.bell.ring([Topic.VISUAL])
            async with world.uow.begin(A) as tx:
                await tx.bell.ring([Topic.TEXT])
            assert Topic.VISUAL not in await _heard(listener, {Topic.TEXT})
        finally:
            await listener.close()

    async def test_what_was_rung_between_two_waits_is_heard(self, world: World) -> None:
        listener = world.listener()
        await listener.start()
        try:
            async with world.uow.begin(A) as tx:
                await tx.bell.ring([Topic.JOBS])
            await _heard(listener, {Topic.JOBS})
        finally:
            await listener.close()

    async def test_every_listener_hears(self, world: World) -> None:
        listeners = [world.listener(), world.listener()]
        for listener in listeners:
            await listener.start()
        try:
            async with world.uow.begin(B) as tx:
                await tx.bell.ring([Topic.RELEASES])
            for listener in listeners:
                await _heard(listener, {Topic.RELEASES})
        finally:
            for listener in listeners:
                await listener.close()

    async def test_what_was_heard_once_is_not_heard_again(self, world: World) -> None:
        listener = world.listener()
        await listener.start()
        try:
            async with world.uow.begin(A) as tx:
                await tx.bell.ring([Topic.JOBS])
            await _heard(listener, {Topic.JOBS})
            async with world.uow.begin(A) as tx:
                await tx.bell.ring([Topic.TEXT])
            assert await _heard(listener, {Topic.TEXT}) == {Topic.TEXT}
        finally:
            await listener.close()

    async def test_without_a_ring_the_wait_ends_by_itself_with_nothing(self, world: World) -> None:
        listener = world.listener()
        await listener.start()
        try:
            assert not await listener.wait(AT_ONCE)
        finally:
            await listener.close()

"""The one processing configuration that is in force."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from imgproc_adapters.testing.seed import MINUTE, NO_TIME, A, B, rolled_back
from imgproc_adapters.testing.world import World
from imgproc_domain.config import ProcessingConfig, VectorSpace

HOUR: Final = timedelta(hours=1)
CROWD: Final = 5


def _config(name: str) -> ProcessingConfig:
    return ProcessingConfig(VectorSpace(f"visual {name}", 8), f"agent {name}", VectorSpace(f"text {name}", 16))


ONE, TWO, THREE = _config("一"), _config("two"), _config("three")


async def _take_over(world: World, config: ProcessingConfig, lease: timedelta = MINUTE) -> None:
    async with world.uow.begin(A) as tx:
        await tx.configuration.take_over(config, lease)


async def _keep(world: World, config: ProcessingConfig, lease: timedelta = MINUTE) -> bool:
    async with world.uow.begin(A) as tx:
        return await tx.configuration.keep(config, lease)


async def _current(world: World) -> ProcessingConfig | None:
    async with world.uow.begin(A) as tx:
        return await tx.configuration.current()


class ConfigurationStoreContract:
    pytestmark = pytest.mark.asyncio

    async def test_none_is_in_force_before_one_is_announced(self, world: World) -> None:
        assert await _current(world) is None

    async def test_the_one_in_force_is_the_same_in_every_scope(self, world: World) -> None:
        await _take_over(world, ONE)
        for scope in (A, B):
            async with world.uow.begin(scope) as tx:
                found = await tx.configuration.current()
            assert found == ONE
            assert found.fingerprint == ONE.fingerprint

    async def test_the_last_one_takes_over_whatever_was_in_force(self, world: World) -> None:
        await _take_over(world, ONE, HOUR)
        await _take_over(world, TWO)
        assert await _current(world) == TWO

    async def test_the_first_to_keep_its_own_puts_it_in_force(self, world: World) -> None:
        assert await _keep(world, ONE)
        assert await _current(world) == ONE

    async def test_another_one_is_superseded_while_the_lease_lasts(self, world: World) -> None:
        await _take_over(world, ONE)
        assert not await _keep(world, TWO)
        assert await _keep(world, ONE)
        assert await _current(world) == ONE

    async def test_another_one_is_in_force_once_the_lease_has_ended(self, world: World) -> None:
        await _take_over(world, ONE, NO_TIME)
        assert await _keep(world, TWO)
        assert await _current(world) == TWO
        assert not await _keep(world, ONE)

    async def test_it_stays_in_force_when_its_lease_has_ended_and_nobody_takes_over(self, world: World) -> None:
        await _take_over(world, ONE, NO_TIME)
        assert await _current(world) == ONE

    async def test_the_one_in_force_extends_its_lease(self, world: World) -> None:
        await _take_over(world, ONE, NO_TIME)
        assert await _keep(world, ONE)
        assert not await _keep(world, TWO)

    @pytest.mark.parametrize("again", ["keep", "take over"])
    async def test_its_lease_is_not_shortened_by_a_process_with_a_shorter_one(self, world: World, again: str) -> None:
        await _take_over(world, ONE, HOUR)
        await (_keep if again == "keep" else _take_over)(world, ONE, NO_TIME)
        assert not await _keep(world, TWO)

    async def test_whoever_takes_over_has_its_own_lease_and_not_the_former_one(self, world: World) -> None:
        await _take_over(world, ONE, HOUR)
        await _take_over(world, TWO, NO_TIME)
        assert await _keep(world, ONE)

    async def test_a_takeover_that_is_rolled_back_changes_nothing(self, world: World) -> None:
        await _take_over(world, ONE)
        async with rolled_back(world) as tx:
            await tx.configuration.take_over(TWO, MINUTE)
        assert await _current(world) == ONE

    @pytest.mark.parametrize("before", [None, ONE])
    async def test_a_transaction_keeps_to_the_one_it_first_read(
        self, world: World, before: ProcessingConfig | None
    ) -> None:
        if before is not None:
            await _take_over(world, before)
        async with world.uow.begin(A) as tx:
            assert await tx.configuration.current() == before
            await _take_over(world, TWO)
            assert await tx.configuration.current() == before
        assert await _current(world) == TWO

    async def test_a_transaction_sees_what_it_announces_itself(self, world: World) -> None:
        async with world.uow.begin(A) as tx:
            assert await tx.configuration.current() is None
            await tx.configuration.take_over(ONE, MINUTE)
            assert await tx.configuration.current() == ONE
            assert not await tx.configuration.keep(TWO, MINUTE)
            assert await tx.configuration.current() == ONE

    @pytest.mark.parametrize("before", [None, ONE])
    async def test_of_two_that_take_an_ended_lease_the_second_waits_and_is_superseded(
        self, world: World, before: ProcessingConfig | None
    ) -> None:
        if before is not None:
            await _take_over(world, before, NO_TIME)
        asking = asyncio.Event()

        async def second() -> bool:
            async with world.uow.begin(B) as tx:
                asking.set()
                return await tx.configuration.keep(THREE, MINUTE)

        async with world.uow.begin(A) as tx:
            assert await tx.configuration.keep(TWO, MINUTE)
            waiting = asyncio.create_task(second())
            await asking.wait()
        assert not await waiting
        assert await _current(world) == TWO

    async def test_of_many_that_take_an_ended_lease_at_once_one_wins(self, world: World) -> None:
        await _take_over(world, ONE, NO_TIME)
        crowd = [_config(str(number)) for number in range(CROWD)]
        won = await asyncio.gather(*(_keep(world, config) for config in crowd))
        assert sum(won) == 1
        assert await _current(world) == crowd[won.index(True)]

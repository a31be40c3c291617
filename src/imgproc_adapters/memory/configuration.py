"""The one configuration in force."""

from datetime import timedelta
from typing import Final

from attrs import define, evolve, field

from imgproc_adapters.memory.schema import CONFIGURATION, ConfigurationRow
from imgproc_adapters.memory.session import Session
from imgproc_domain.config import ProcessingConfig

_KEY: Final = 1


@define(eq=False)
class MemoryConfiguration:
    _session: Session
    _known: ProcessingConfig | None = field(init=False, default=None)
    _asked: bool = field(init=False, default=False)

    async def current(self) -> ProcessingConfig | None:
        if not self._asked:
            row = self._session.get(CONFIGURATION, _KEY)
            self._remember(row.config if row else None)
        return self._known

    async def take_over(self, config: ProcessingConfig, lease: timedelta) -> None:
        await self._announce(config, lease, always=True)

    async def keep(self, config: ProcessingConfig, lease: timedelta) -> bool:
        return await self._announce(config, lease, always=False)

    async def _announce(self, config: ProcessingConfig, lease: timedelta, *, always: bool) -> bool:
        session = self._session
        if not await session.insert_absent(CONFIGURATION, self._row(config, lease)):
            # the attempt to insert waited for whoever held the row, and holds it now
            held = session.get(CONFIGURATION, _KEY)
            assert held is not None, "a row that refuses another one is there"
            fresh = self._row(config, lease)
            if held.config == config:
                fresh = evolve(held, alive_until=max(held.alive_until, fresh.alive_until))
            elif not always and held.alive_until > fresh.announced_at:
                return False
            await session.update(CONFIGURATION, fresh)
        self._remember(config)
        return True

    def _row(self, config: ProcessingConfig, lease: timedelta) -> ConfigurationRow:
        now = self._session.now()
        return ConfigurationRow(_KEY, config, now, now + lease)

    def _remember(self, config: ProcessingConfig | None) -> None:
        self._known, self._asked = config, True

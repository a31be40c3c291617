"""The one configuration in force: a single row, which belongs to no scope."""

import json
from datetime import timedelta
from typing import Final

from attrs import asdict
from cattrs import BaseValidationError

from imgproc_adapters.postgres.converter import CONVERTER
from imgproc_adapters.postgres.session import Session, statement
from imgproc_domain.config import ProcessingConfig
from imgproc_domain.errors import ConfigurationUnreadable

_CURRENT: Final = statement("SELECT fingerprint, configuration FROM processing_configuration WHERE id = 1")

# The row's lock decides between two that announce at once: the second one meets the lease that the first one wrote.
_ANNOUNCE: Final = statement(
    """
    INSERT INTO processing_configuration AS c (id, fingerprint, configuration, announced_at, alive_until)
    VALUES (1, %(fingerprint)s, %(configuration)s, statement_timestamp(), statement_timestamp() + %(lease)s::interval)
    ON CONFLICT (id) DO UPDATE
    SET fingerprint = EXCLUDED.fingerprint,
        configuration = EXCLUDED.configuration,
        announced_at = CASE c.fingerprint WHEN EXCLUDED.fingerprint THEN c.announced_at ELSE EXCLUDED.announced_at END,
        alive_until = greatest(
            EXCLUDED.alive_until, CASE c.fingerprint WHEN EXCLUDED.fingerprint THEN c.alive_until END
        )
    WHERE %(always)s OR c.fingerprint = EXCLUDED.fingerprint OR c.alive_until <= statement_timestamp()
    """
)


class PostgresConfiguration:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: ProcessingConfig | None = None
        self._asked = False

    async def current(self) -> ProcessingConfig | None:
        if not self._asked:
            rows = await self._session.rows(_CURRENT)
            self._remember(_read(*rows[0]) if rows else None)
        return self._known

    async def take_over(self, config: ProcessingConfig, lease: timedelta) -> None:
        await self._announce(config, lease, always=True)

    async def keep(self, config: ProcessingConfig, lease: timedelta) -> bool:
        return await self._announce(config, lease, always=False)

    async def _announce(self, config: ProcessingConfig, lease: timedelta, *, always: bool) -> bool:
        written = await self._session.run(
            _ANNOUNCE,
            fingerprint=config.fingerprint,
            configuration=json.dumps(asdict(config)),
            lease=lease,
            always=always,
        )
        if written:
            self._remember(config)
        return written > 0

    def _remember(self, config: ProcessingConfig | None) -> None:
        self._known, self._asked = config, True


def _read(fingerprint: str, configuration: str) -> ProcessingConfig:
    """Return a stored configuration; one with a field more or less has another fingerprint than it was stored with."""
    try:
        config = CONVERTER.structure(json.loads(configuration), ProcessingConfig)
    except (BaseValidationError, TypeError, ValueError) as error:
        raise _foreign() from error
    if config.fingerprint != fingerprint:
        raise _foreign()
    return config


def _foreign() -> ConfigurationUnreadable:
    return ConfigurationUnreadable("the processing configuration in force was announced by another version")

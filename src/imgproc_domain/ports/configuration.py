"""The one processing configuration that is in force: a lease on it, and whoever decides reads it."""

from datetime import timedelta
from typing import Protocol

from imgproc_domain.config import ProcessingConfig


class ConfigurationStore(Protocol):
    """One row, which belongs to no scope. All times are the database's."""

    async def current(self) -> ProcessingConfig | None:
        """Return the configuration in force, None before any was announced; it stays in force when its lease ends.

        A transaction is answered what it first read or announced itself, so that what it decides agrees. Only the
        first question costs a statement.

        Raises:
            ConfigurationUnreadable: a version announced it whose configurations this one cannot read.
        """
        ...

    async def take_over(self, config: ProcessingConfig, lease: timedelta) -> None:
        """Put a configuration in force until now + ``lease`` at least, whichever one was."""
        ...

    async def keep(self, config: ProcessingConfig, lease: timedelta) -> bool:
        """Compare-and-set: extend the lease of ``config`` if it is in force, or put it in force if none holds any more.

        A lease is never shortened by this. Returns False, having changed nothing, while the lease of another
        configuration lasts: ``config`` is superseded.
        """
        ...

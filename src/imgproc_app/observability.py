"""Structured logs by allow-list: ids, codes and counts of events, and nothing else of a picture or a tenant's text."""

import logging

from attrs import asdict

from imgproc_domain.events import Event, LeaseExpired, WriteBackFenced

log = logging.getLogger("imgproc.events")


class LogObserver:
    """Writes each event as one line ``name key=value ...``; what needs a person's eye is a warning."""

    def note(self, event: Event) -> None:
        level = logging.WARNING if isinstance(event, LeaseExpired | WriteBackFenced) else logging.DEBUG
        if log.isEnabledFor(level):
            facts = " ".join(f"{key}={value}" for key, value in asdict(event, recurse=False).items())
            log.log(level, "%s %s", type(event).__name__, facts)


def configure_logging(level: str) -> None:
    """Send logs of this level and above to standard error."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")

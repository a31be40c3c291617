"""Whether everything imgproc needs is there, and how to get what is not."""

from collections.abc import AsyncIterator

from imgproc_app.doctor.check import Check, Verdict
from imgproc_app.doctor.database import examine_database
from imgproc_app.doctor.machine import examine_machine
from imgproc_app.doctor.models import examine_models
from imgproc_app.settings import Settings

__all__ = ["Check", "Verdict", "examine"]


async def examine(settings: Settings) -> AsyncIterator[Check]:
    """Yield the checks one by one as they are done. The embedded server is started, or joined, for its checks."""
    for check in examine_machine(settings):
        yield check
    async for check in examine_database(settings):
        yield check
    async for check in examine_models(settings):
        yield check

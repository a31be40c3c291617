"""Whether everything imgproc needs is there, and how to get what is not."""

from collections.abc import AsyncIterator

from imgproc_app.doctor.check import Check, Verdict, skipped
from imgproc_app.doctor.database import examine_database
from imgproc_app.doctor.machine import DATA_DIRECTORY, NO_DATA_DIRECTORY, examine_machine
from imgproc_app.doctor.models import examine_models
from imgproc_app.doctor.service import examine_service
from imgproc_app.settings import Settings

__all__ = ["Check", "Verdict", "examine"]


async def examine(settings: Settings) -> AsyncIterator[Check]:
    """Yield the checks one by one as they are done. The embedded server is started, or joined, for its checks."""
    usable = True
    for check in examine_machine(settings):
        usable = usable and not (check.name == DATA_DIRECTORY and check.verdict is Verdict.FAILED)
        yield check
    yield examine_service(settings)
    if settings.dsn is not None or usable:
        async for check in examine_database(settings):
            yield check
    else:
        yield skipped("database", NO_DATA_DIRECTORY)
    if usable:
        async for check in examine_models(settings):
            yield check
    else:
        yield skipped("models", NO_DATA_DIRECTORY)

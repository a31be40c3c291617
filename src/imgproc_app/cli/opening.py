"""Open the runtime for a command."""

from contextlib import AbstractAsyncContextManager

from imgproc_adapters.policy import AllowAllPolicy
from imgproc_app.lifecycle import Parts, Runtime, open_runtime
from imgproc_app.settings import Settings


def opened(settings: Settings) -> AbstractAsyncContextManager[Runtime]:
    """Open the runtime of a person's own machine or service, where every operation is allowed."""
    return open_runtime(settings, Parts(policy=AllowAllPolicy()))

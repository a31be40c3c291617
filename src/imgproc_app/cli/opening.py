"""Open the runtime for a command."""

from contextlib import AbstractAsyncContextManager

from imgproc_app.lifecycle import Parts, Runtime, open_runtime
from imgproc_app.settings import Settings


def opened(settings: Settings) -> AbstractAsyncContextManager[Runtime]:
    """Open the runtime of a person's own machine or service, under the policy that its settings name."""
    return open_runtime(settings, Parts(policy=None))

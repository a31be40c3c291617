"""The command line ``imgproc``."""

import time
from typing import Final

STARTED: Final = time.monotonic()
"""When this process began to load the command line: what `imgproc demo` measures from."""

from imgproc_app.cli.group import main  # noqa: E402 - the clock is read before anything heavy is imported

__all__ = ["STARTED", "main"]

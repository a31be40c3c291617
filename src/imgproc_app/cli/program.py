"""How this program was called, so that what is suggested can be copied to the same shell."""

import shlex
import shutil
import sys
from pathlib import Path

from imgproc_app.settings import Settings


def program() -> str:
    """Return what to type to start this program again, quoted for a shell."""
    typed = sys.argv[0]
    if Path(typed).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m imgproc_app.cli"
    # a shell that found it by its name finds it again
    found = shutil.which(Path(typed).name) == typed
    return shlex.quote(Path(typed).name if found else typed)


def command_line(data_dir: Path, *words: str) -> str:
    """Return a whole command over ``data_dir``; ``words`` are already quoted as they should be shown."""
    return " ".join((program(), "--data-dir", shlex.quote(str(data_dir)), *words))


def demo_library(settings: Settings) -> Path | None:
    """Return the data directory of the demo that began last, if there was one."""
    libraries = [cluster.parent for cluster in settings.data_dir.glob("demo*/postgres")]
    return max(libraries, key=lambda place: (place / "postgres").stat().st_mtime, default=None)


def demo_hint(settings: Settings) -> str | None:
    """Return how to search the demo's pictures, for somebody who finds nothing in a library that is empty."""
    library = demo_library(settings)
    if library is None:
        return None
    return f"""the demo has a library of its own: {command_line(library, "search", '"..."')}"""

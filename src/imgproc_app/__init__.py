"""imgproc as a service, a command line, and a part of other applications: `build` opens it for a host."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imgproc_app.hosting import build

__all__ = ["build"]


def __getattr__(name: str) -> object:
    # loaded when asked for: the command line must not wait for a web framework to print its help
    if name == "build":
        from imgproc_app.hosting import build  # noqa: PLC0415 - see above

        return build
    raise AttributeError(name)

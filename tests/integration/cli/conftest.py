"""One data directory a module, and processes that do not outlive their test."""

from collections.abc import Callable, Iterator

import pytest

from .terminal import Imgproc, Started, environment


@pytest.fixture(scope="module")
def imgproc(tmp_path_factory: pytest.TempPathFactory) -> Imgproc:
    return Imgproc(tmp_path_factory.mktemp("cli") / "data", environment())


@pytest.fixture
def start(imgproc: Imgproc) -> Iterator[Callable[..., Started]]:
    """Start processes that do not outlive the test."""
    started: list[Started] = []

    def begin(*arguments: str) -> Started:
        started.append(imgproc.start(*arguments))
        return started[-1]

    yield begin
    for process in started:
        process.close()

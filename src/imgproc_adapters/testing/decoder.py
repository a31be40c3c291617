"""A decoder that looks at nothing."""

from pathlib import Path

from attrs import Factory, frozen

from imgproc_domain.ports.models import PictureInfo


@frozen
class ScriptedDecoder:
    """Takes every file for the same picture: for tests and benchmarks in which pictures are mere names."""

    info: PictureInfo = Factory(lambda: PictureInfo("image/png", 640, 480, 1))

    async def probe(self, path: Path) -> PictureInfo:  # noqa: ARG002 - the port's signature
        return self.info

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:  # noqa: ARG002 - the port's signature
        return path.name.encode()

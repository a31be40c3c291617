"""Thumbnails, made when somebody looks and kept for a while."""

import asyncio
from collections import OrderedDict
from pathlib import Path

from imgproc_domain.ids import Sha256
from imgproc_domain.ports.models import Decoder


class Thumbnails:
    """A bounded cache in memory: the least recently used go first. The same picture is decoded once at a time."""

    def __init__(self, decoder: Decoder, longest_side: int, max_bytes: int) -> None:
        self.longest_side = longest_side
        self._decoder = decoder
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Sha256, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._making: dict[Sha256, asyncio.Task[bytes]] = {}

    def etag(self, sha256: Sha256) -> str:
        return f'"{sha256}-{self.longest_side}"'

    async def of(self, sha256: Sha256, path: Path) -> bytes:
        """Return the WebP thumbnail of the picture with these bytes.

        Raises:
            PictureRejected: as `Decoder.thumbnail`.
        """
        kept = self._kept.get(sha256)
        if kept is not None:
            self._kept.move_to_end(sha256)
            return kept
        making = self._making.get(sha256)
        if making is None:
            making = asyncio.create_task(self._make(sha256, path))
            self._making[sha256] = making
            making.add_done_callback(lambda _: self._making.pop(sha256, None))
        # one of several who wait may give up; the others still want it
        return await asyncio.shield(making)

    async def _make(self, sha256: Sha256, path: Path) -> bytes:
        made = await self._decoder.thumbnail(path, self.longest_side)
        self._kept[sha256] = made
        self._kept_bytes += len(made)
        while self._kept_bytes > self._max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= len(dropped)
        return made

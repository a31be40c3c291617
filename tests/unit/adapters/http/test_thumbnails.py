import asyncio
from pathlib import Path

import pytest

from imgproc_adapters.http.thumbnails import Thumbnails
from imgproc_adapters.testing.factories import digest
from imgproc_domain.errors import ImageCorrupt
from imgproc_domain.ports.models import PictureInfo

PATH = Path("picture")


class SlowDecoder:
    """Makes 40 bytes when it is let; refuses what it is told to."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.let.set()
        self.made = 0
        self.broken = False

    async def probe(self, path: Path) -> PictureInfo:
        return PictureInfo(f"image/{path.name}", 1, 1, 1)

    async def thumbnail(self, path: Path, longest_side: int) -> bytes:
        await self.let.wait()
        self.made += 1
        if self.broken:
            raise ImageCorrupt(f"{path} cannot be decoded")
        return bytes(longest_side)


async def test_a_thumbnail_is_made_once() -> None:
    decoder = SlowDecoder()
    thumbnails = Thumbnails(decoder, 40, 100)
    assert await thumbnails.of(digest("a"), PATH) == await thumbnails.of(digest("a"), PATH) == bytes(40)
    assert decoder.made == 1


async def test_the_least_recently_seen_go_first() -> None:
    decoder = SlowDecoder()
    thumbnails = Thumbnails(decoder, 40, 100)
    for name in ("a", "b", "a", "c", "a"):
        await thumbnails.of(digest(name), PATH)
    assert decoder.made == 3
    await thumbnails.of(digest("b"), PATH)
    assert decoder.made == 4


async def test_a_thumbnail_larger_than_the_cache_is_served_all_the_same() -> None:
    thumbnails = Thumbnails(SlowDecoder(), 40, 10)
    assert await thumbnails.of(digest("a"), PATH) == bytes(40)


async def test_many_who_ask_at_once_share_one_call_and_may_give_up_alone() -> None:
    decoder = SlowDecoder()
    decoder.let.clear()
    thumbnails = Thumbnails(decoder, 40, 100)
    first, second = (asyncio.create_task(thumbnails.of(digest("a"), PATH)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    decoder.let.set()
    assert await second == bytes(40)
    assert first.cancelled()
    assert decoder.made == 1


async def test_a_failure_is_told_and_not_kept() -> None:
    decoder = SlowDecoder()
    decoder.broken = True
    thumbnails = Thumbnails(decoder, 40, 100)
    with pytest.raises(ImageCorrupt):
        await thumbnails.of(digest("a"), PATH)
    decoder.broken = False
    assert await thumbnails.of(digest("a"), PATH) == bytes(40)

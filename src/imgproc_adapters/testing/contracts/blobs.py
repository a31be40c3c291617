"""The bytes of pictures."""

import hashlib
from collections.abc import AsyncIterator, Iterable

import pytest
from attrs import evolve

from imgproc_adapters.testing.factories import digest
from imgproc_adapters.testing.seed import A, B
from imgproc_domain.errors import ImageTooLarge, InvalidValue
from imgproc_domain.ports.blobs import BlobStore, Staged

MEGABYTE = 1 << 20


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _stage(blobs: BlobStore, *parts: bytes) -> Staged:
    return await blobs.stage(chunks(parts), MEGABYTE)


class BlobStoreContract:
    """Needs the fixture ``blobs``: an empty store."""

    pytestmark = pytest.mark.asyncio

    async def test_staged_bytes_are_hashed_and_counted(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs, b"one ", b"", b"two")
        assert staged.path.read_bytes() == b"one two"
        assert (staged.sha256.hex, staged.byte_size) == (hashlib.sha256(b"one two").hexdigest(), len(b"one two"))

    async def test_no_bytes_are_bytes_too(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs)
        assert (staged.sha256, staged.byte_size) == (digest(""), 0)

    async def test_exactly_the_limit_is_accepted_and_one_byte_more_is_not(self, blobs: BlobStore) -> None:
        assert (await blobs.stage(chunks([b"1234", b"5678"]), 8)).byte_size == len(b"12345678")
        with pytest.raises(ImageTooLarge):
            await blobs.stage(chunks([b"1234", b"56789"]), 8)

    async def test_reading_stops_at_the_limit(self, blobs: BlobStore) -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield bytes(1024)

        with pytest.raises(ImageTooLarge):
            await blobs.stage(endless(), MEGABYTE)

    async def test_kept_bytes_lie_where_their_key_says(self, blobs: BlobStore) -> None:
        key = await blobs.keep(A, await _stage(blobs, b"picture"))
        assert blobs.path(A, key).read_bytes() == b"picture"

    async def test_the_same_bytes_have_the_same_key_and_may_be_kept_twice(self, blobs: BlobStore) -> None:
        first, second = await _stage(blobs, b"picture"), await _stage(blobs, b"picture")
        keys = {await blobs.keep(A, staged) for staged in (first, second, first)}
        (key,) = keys
        assert blobs.path(A, key).read_bytes() == b"picture"

    async def test_bytes_of_two_scopes_never_meet(self, blobs: BlobStore) -> None:
        keys = [await blobs.keep(scope, await _stage(blobs, b"picture")) for scope in (A, B)]
        assert len({blobs.path(scope, key) for scope, key in zip((A, B), keys, strict=True)}) == len(keys)
        await blobs.remove(A, keys[0])
        assert blobs.path(B, keys[1]).read_bytes() == b"picture"

    async def test_a_key_of_another_scope_is_refused(self, blobs: BlobStore) -> None:
        key = await blobs.keep(A, await _stage(blobs, b"picture"))
        with pytest.raises(InvalidValue):
            blobs.path(B, key)
        with pytest.raises(InvalidValue):
            await blobs.remove(B, key)
        with pytest.raises(InvalidValue):
            await blobs.has(B, key)

    async def test_it_has_what_was_kept_and_not_removed(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs, b"picture")
        key = await blobs.keep(A, staged)
        assert await blobs.has(A, key)
        await blobs.remove(A, key)
        assert not await blobs.has(A, key)
        await blobs.keep(A, await _stage(blobs, b"picture"))
        assert await blobs.has(A, key)

    @pytest.mark.parametrize("key", ["", "/", "../../etc/passwd", "/etc/passwd", "a/b", "\0", "a" * 64])
    async def test_a_key_that_the_store_did_not_make_is_refused(self, blobs: BlobStore, key: str) -> None:
        with pytest.raises(InvalidValue):
            blobs.path(A, key)
        with pytest.raises(InvalidValue):
            await blobs.has(A, key)

    async def test_discarded_bytes_are_gone_and_may_be_discarded_again(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs, b"picture")
        for _ in range(2):
            await blobs.discard(staged)
            assert not staged.path.exists()

    async def test_discarding_after_keeping_leaves_the_kept_bytes_alone(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs, b"picture")
        key = await blobs.keep(A, staged)
        await blobs.discard(staged)
        assert blobs.path(A, key).read_bytes() == b"picture"

    async def test_removed_bytes_are_gone_and_may_be_removed_again(self, blobs: BlobStore) -> None:
        key = await blobs.keep(A, await _stage(blobs, b"picture"))
        for _ in range(2):
            await blobs.remove(A, key)
            assert not blobs.path(A, key).exists()

    async def test_bytes_that_were_never_staged_cannot_be_kept(self, blobs: BlobStore) -> None:
        staged = await _stage(blobs, b"picture")
        await blobs.discard(staged)
        with pytest.raises(InvalidValue):
            await blobs.keep(A, evolve(staged, sha256=digest("never seen")))

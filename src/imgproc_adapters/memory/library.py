"""Memes, their contexts and their products."""

from collections.abc import Collection, Mapping, Sequence

from attrs import evolve, frozen

from imgproc_adapters.memory.processing import behind
from imgproc_adapters.memory.schema import CONTEXTS, JOBS, MEMES, TEXT, VISUAL
from imgproc_adapters.memory.session import Session
from imgproc_domain.context import Context
from imgproc_domain.ids import MemeId, Sha256
from imgproc_domain.job import JobStatus
from imgproc_domain.meme import Meme
from imgproc_domain.ports.library import NOTHING_KNOWN, MemePage
from imgproc_domain.product import Products, TextProduct, TextStamp, VisualProduct, VisualStamp


@frozen
class MemoryMemes:
    _session: Session

    async def add(self, meme: Meme) -> None:
        assert meme.scope == self._session.scope, "I1: a transaction writes one scope"
        await self._session.insert(MEMES, meme)

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        return self._session.pick(MEMES, ids)

    async def lock(self, ids: Collection[MemeId]) -> Mapping[MemeId, Meme]:
        return await self._session.lock(MEMES, sorted(set(ids)))

    async def by_content(self, digests: Collection[Sha256]) -> Mapping[Sha256, Meme]:
        wanted = set(digests)
        live = (meme for meme in self._session.rows(MEMES) if meme.exists)
        return {meme.picture.sha256: meme for meme in live if meme.picture.sha256 in wanted}

    async def page(
        self, after: MemeId | None, limit: int, name_contains: str = "", status: JobStatus | None = None
    ) -> MemePage:
        part = name_contains.lower()
        newest = {job.meme_id: job.status for job in sorted(self._session.rows(JOBS), key=lambda job: job.revision)}
        found = (
            (meme.meme_id, meme)
            for meme in self._session.rows(MEMES)
            if meme.exists and part in meme.filename.lower() and status in (None, newest.get(meme.meme_id))
        )
        return MemePage(*behind(found, after, limit))

    async def save(self, meme: Meme) -> None:
        old = self._session.get(MEMES, meme.meme_id)
        if old is None:
            raise self._session.conflict("a meme to be written is gone")
        written = evolve(
            old,
            filename=meme.filename,
            picture=meme.picture,
            updated_at=meme.updated_at,
            deleted_at=meme.deleted_at,
        )
        await self._session.update(MEMES, written)

    async def count(self) -> int:
        return sum(meme.exists for meme in self._session.rows(MEMES))


@frozen
class MemoryContexts:
    _session: Session

    async def get(self, ids: Collection[MemeId]) -> Mapping[MemeId, Context]:
        return self._session.pick(CONTEXTS, ids)

    async def put(self, contexts: Sequence[Context]) -> None:
        for context in contexts:
            assert context.scope == self._session.scope, "I1: a transaction writes one scope"
            await self._session.upsert(CONTEXTS, context)


@frozen
class MemoryProducts:
    _session: Session

    async def stamps(
        self, ids: Collection[MemeId], known: Mapping[MemeId, Context | None] = NOTHING_KNOWN
    ) -> Mapping[MemeId, Products]:
        visual: dict[MemeId, set[VisualStamp]] = {meme_id: set() for meme_id in ids}
        text: dict[MemeId, set[TextStamp]] = {meme_id: set() for meme_id in ids}
        for v in self._session.rows(VISUAL):
            visual.get(v.meme_id, set()).add(VisualStamp(v.image_sha256, v.space_id, v.vector.dimension))
        for t in self._session.rows(TEXT):
            stamp = TextStamp(t.image_sha256, t.metadata_hash, t.space_id, t.vector.dimension)
            text.get(t.meme_id, set()).add(stamp)
        contexts = self._session.pick(CONTEXTS, ids)
        assert all(contexts.get(key) == known[key] for key in visual if key in known), "what is known is what is stored"
        return {key: Products(frozenset(visual[key]), contexts.get(key), frozenset(text[key])) for key in visual}

    async def put_visual(self, products: Sequence[VisualProduct]) -> None:
        for product in products:
            await self._session.upsert(VISUAL, product)

    async def put_text(self, products: Sequence[TextProduct]) -> None:
        for product in products:
            await self._session.upsert(TEXT, product)

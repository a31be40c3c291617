"""What may be found now, by meaning and by words."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from imgproc_adapters.memory.schema import (
    CONTEXTS,
    FINDABLE,
    MEMES,
    SEARCH_STATE,
    TEXT,
    THE_STATE,
    Findable,
    SearchStateRow,
)
from imgproc_adapters.memory.search_state import lock_state
from imgproc_adapters.memory.session import Session
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import USABLE
from imgproc_domain.ids import MemeId
from imgproc_domain.migration import SearchMode, SearchState
from imgproc_domain.product import TextProduct
from imgproc_domain.search import Coverage, Neighbour, WordMatch
from imgproc_domain.values import evolve
from imgproc_domain.vector import Vector
from imgproc_domain.words import LEAST_SHARE, SHARE_DIGITS, WEIGHTS, Words, words_of


@frozen
class MemorySearch:
    _session: Session

    async def publish(self, products: Sequence[TextProduct], words: Mapping[MemeId, Words]) -> None:
        await self._share()
        for product in products:
            await self._session.upsert(FINDABLE, Findable(product, words[product.meme_id]))
        if products:
            await self._pin(VectorSpace(products[0].space_id, products[0].vector.dimension))

    async def refresh(self, meme_ids: Collection[MemeId]) -> None:
        wanted = set(meme_ids)
        for row in self._session.rows(FINDABLE):
            if row.meme_id in wanted and not is_current(self._session, row.product):
                await self._session.delete(FINDABLE, (row.space_id, row.meme_id))
        current = [row for row in self._session.rows(TEXT) if row.meme_id in wanted and is_current(self._session, row)]
        if current:
            await self._share()
        for product in current:
            found = self._session.get(FINDABLE, (product.space_id, product.meme_id))
            row = Findable(found.product if found else product, self._words(product.meme_id))
            await self._session.upsert(FINDABLE, row)

    async def nearest(self, space_id: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        found = [Neighbour(row.meme_id, distance) for row, distance in self._near(space_id, vector)]
        return sorted(found, key=lambda neighbour: (neighbour.distance, neighbour.meme_id))[:limit]

    async def worded(self, space_id: str, vector: Vector, words: Sequence[str], limit: int) -> Sequence[WordMatch]:
        found = [
            (WordMatch(row.meme_id, share, distance), len(row.words))
            for row, distance in self._near(space_id, vector)
            if row.words is not None and (share := _share(row.words, words)) >= LEAST_SHARE
        ]
        found.sort(key=lambda pair: (-pair[0].share, pair[1], pair[0].meme_id))
        return [match for match, _ in found[:limit]]

    async def coverage(self, space_id: str) -> Coverage:
        total = sum(meme.exists for meme in self._session.rows(MEMES))
        return Coverage(len(self._of_space(space_id)), total)

    async def state(self) -> SearchState:
        row = self._session.get(SEARCH_STATE, THE_STATE)
        return row.state if row else SearchState()

    async def begin_reading(self) -> SearchState:
        self._session.freeze()
        return await self.state()

    async def _pin(self, space: VectorSpace) -> None:
        if (await self.state()).serving is not None:
            return
        state = await lock_state(self._session)
        if state.serving is None:
            await self._session.update(SEARCH_STATE, SearchStateRow(evolve(state, serving=space)))

    async def _share(self) -> None:
        """Hold a state that is about to be switched, so that the switch sees what is made findable now."""
        state = await self.state()
        if state.filling is not None or state.mode is SearchMode.BACKFILL:
            await self._session.lock(SEARCH_STATE, [THE_STATE])

    def _words(self, meme_id: MemeId) -> Words:
        meme, context = self._session.get(MEMES, meme_id), self._session.get(CONTEXTS, meme_id)
        assert meme is not None, "what is current has its meme"
        assert context is not None, "what is current has its context"
        return words_of(context.description, meme.filename)

    def _near(self, space_id: str, vector: Vector) -> Sequence[tuple[Findable, float]]:
        rows = [row for row in self._of_space(space_id) if row.product.vector.dimension == vector.dimension]
        return list(zip(rows, distances([row.product.vector for row in rows], vector), strict=True))

    def _of_space(self, space_id: str) -> list[Findable]:
        return [row for row in self._session.rows(FINDABLE) if row.space_id == space_id]


def is_current(session: Session, product: TextProduct) -> bool:
    """Whether a vector was made from what its meme is now, which may be found (I14)."""
    meme, context = session.get(MEMES, product.meme_id), session.get(CONTEXTS, product.meme_id)
    if meme is None or not meme.exists or context is None or context.status not in USABLE:
        return False
    return (meme.picture.sha256, context.metadata_hash) == (product.image_sha256, product.metadata_hash)


def distances(vectors: Sequence[Vector], vector: Vector) -> list[float]:
    """Return the cosine distance of each vector to another one of the same dimension."""
    if not vectors:
        return []
    products = np.stack([_components(each) for each in vectors]) @ _components(vector)
    return [max(0.0, float(1.0 - product)) for product in products]


def _share(words: Words, asked: Sequence[str]) -> float:
    found = sum(WEIGHTS[field] * len(some.intersection(asked)) for field, some in words.by_field.items())
    return round(found / len(asked), SHARE_DIGITS)


def _components(vector: Vector) -> NDArray[np.float64]:
    return np.frombuffer(vector.data, dtype=np.float32).astype(np.float64)

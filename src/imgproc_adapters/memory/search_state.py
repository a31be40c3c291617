"""Which source and space a scope's searches read, and what a space still lacks."""

from collections.abc import Collection, Sequence

from attrs import frozen

from imgproc_adapters.memory.schema import CONTEXTS, FINDABLE, MEMES, SEARCH_STATE, THE_STATE, SearchStateRow
from imgproc_adapters.memory.session import Session
from imgproc_domain.config import VectorSpace
from imgproc_domain.context import USABLE
from imgproc_domain.ids import MemeId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import SearchState
from imgproc_domain.ports.migration import Missing


async def lock_state(session: Session) -> SearchState:
    """Lock the scope's state, made if it is not there yet, and return it."""
    await session.insert_absent(SEARCH_STATE, SearchStateRow(SearchState()))
    (row,) = (await session.lock(SEARCH_STATE, [THE_STATE])).values()
    return row.state


@frozen
class MemoryMigration:
    _session: Session

    async def lock(self) -> SearchState:
        return await lock_state(self._session)

    async def save(self, state: SearchState) -> None:
        await self._session.update(SEARCH_STATE, SearchStateRow(state))

    async def missing(self, space: VectorSpace, after: MemeId | None, window: int) -> Missing:
        behind = [meme for meme in self._live() if after is None or meme.meme_id > after]
        page = behind[:window]
        missing = tuple(meme.meme_id for meme in page if self._is_missing(space, meme))
        return Missing(missing, len(page), page[-1].meme_id if len(behind) > window else None)

    async def lacking(self, space: VectorSpace, meme_ids: Collection[MemeId]) -> Collection[MemeId]:
        wanted = set(meme_ids)
        return {meme_id for meme_id in self._missing(space) if meme_id in wanted}

    async def first_missing(self, space: VectorSpace, limit: int) -> Sequence[MemeId]:
        return self._missing(space)[:limit]

    async def count_missing(self, space: VectorSpace) -> int:
        return len(self._missing(space))

    def _live(self) -> list[Meme]:
        return sorted((m for m in self._session.rows(MEMES) if m.exists), key=lambda meme: meme.meme_id)

    def _missing(self, space: VectorSpace) -> list[MemeId]:
        return [meme.meme_id for meme in self._live() if self._is_missing(space, meme)]

    def _is_missing(self, space: VectorSpace, meme: Meme) -> bool:
        context = self._session.get(CONTEXTS, meme.meme_id)
        if context is None or context.status not in USABLE or context.metadata_hash is None:
            return False
        row = self._session.get(FINDABLE, (space.id, meme.meme_id))
        if row is None or row.words is None:
            return True
        made_from = (row.product.image_sha256, row.product.metadata_hash, row.product.vector.dimension)
        return made_from != (meme.picture.sha256, context.metadata_hash, space.dimension)

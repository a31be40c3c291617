"""Legacy generations."""

from collections.abc import Sequence

from attrs import evolve, frozen

from imgproc_adapters.memory.schema import ENTRIES, FINDABLE, GENERATIONS, MEMES, GenerationEntry
from imgproc_adapters.memory.search import is_current
from imgproc_adapters.memory.session import Session
from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.meme import Meme
from imgproc_domain.migration import Generation
from imgproc_domain.ports.search import Entry, Readable
from imgproc_domain.product import TextProduct
from imgproc_domain.search import Coverage
from imgproc_domain.vector import Vector


@frozen
class MemoryGenerations:
    _session: Session

    async def of_task(self, task_id: TaskId) -> Generation | None:
        return next((self._counted(row) for row in self._session.rows(GENERATIONS) if row.task_id == task_id), None)

    async def newest(self) -> Generation | None:
        complete = [row for row in self._session.rows(GENERATIONS) if row.completed_at is not None]
        return self._counted(max(complete, key=lambda row: row.generation_id)) if complete else None

    async def readable(self) -> Readable | None:
        newest = await self.newest()
        return Readable(newest.generation_id, newest.space) if newest else None

    async def add(self, generation: Generation) -> None:
        await self._session.insert(GENERATIONS, evolve(generation, entries=0))

    async def copy_page(self, generation_id: GenerationId, after: MemeId | None, limit: int) -> MemeId | None:
        space = self._get(generation_id).space.id
        rows = [row for row in self._session.rows(FINDABLE) if row.space_id == space]
        behind = sorted((r for r in rows if after is None or r.meme_id > after), key=lambda row: row.meme_id)
        page = behind[:limit]
        for row in page:
            await self._session.insert_absent(ENTRIES, GenerationEntry(generation_id, row.product))
        return page[-1].meme_id if page else None

    async def complete(self, generation_id: GenerationId) -> None:
        await self._session.lock(GENERATIONS, [generation_id])
        generation = self._get(generation_id)
        await self._session.update(GENERATIONS, evolve(generation, completed_at=self._session.now()))

    async def nearest(self, generation_id: GenerationId, vector: Vector, limit: int) -> Sequence[Entry]:
        found = [
            Entry(meme.meme_id, product.vector.cosine_distance(vector), meme.picture.storage_key)
            for meme, product in self._usable(generation_id)
            if product.vector.dimension == vector.dimension
        ]
        return sorted(found, key=lambda entry: (entry.distance, entry.meme_id))[:limit]

    async def coverage(self, generation_id: GenerationId) -> Coverage:
        total = sum(meme.exists for meme in self._session.rows(MEMES))
        return Coverage(len(self._usable(generation_id)), total)

    def _usable(self, generation_id: GenerationId) -> list[tuple[Meme, TextProduct]]:
        generation = self._session.get(GENERATIONS, generation_id)
        if generation is None or generation.completed_at is None:
            return []
        entries = (row.product for row in self._session.rows(ENTRIES) if row.generation_id == generation_id)
        whole = (product for product in entries if product.vector.dimension == generation.space.dimension)
        found = ((self._session.get(MEMES, product.meme_id), product) for product in whole)
        return [(meme, product) for meme, product in found if meme is not None and is_current(self._session, product)]

    def _get(self, generation_id: GenerationId) -> Generation:
        generation = self._session.get(GENERATIONS, generation_id)
        assert generation is not None, "a generation is added before it is filled"
        return generation

    def _counted(self, generation: Generation) -> Generation:
        wanted = generation.generation_id
        entries = sum(row.generation_id == wanted for row in self._session.rows(ENTRIES))
        return evolve(generation, entries=entries)

"""Legacy generations."""

from attrs import evolve, frozen

from imgproc_adapters.memory.schema import ENTRIES, FINDABLE, GENERATIONS, GenerationEntry
from imgproc_adapters.memory.session import Session
from imgproc_domain.ids import GenerationId, MemeId, TaskId
from imgproc_domain.migration import Generation


@frozen
class MemoryGenerations:
    _session: Session

    async def of_task(self, task_id: TaskId) -> Generation | None:
        return next((self._counted(row) for row in self._session.rows(GENERATIONS) if row.task_id == task_id), None)

    async def newest(self) -> Generation | None:
        complete = [row for row in self._session.rows(GENERATIONS) if row.completed_at is not None]
        return self._counted(max(complete, key=lambda row: row.generation_id)) if complete else None

    async def add(self, generation: Generation) -> None:
        await self._session.insert(GENERATIONS, evolve(generation, entries=0))

    async def copy_page(self, generation_id: GenerationId, after: MemeId | None, limit: int) -> MemeId | None:
        space = self._get(generation_id).space.id
        rows = [row for row in self._session.rows(FINDABLE) if row.space_id == space]
        behind = sorted((r for r in rows if after is None or r.meme_id > after), key=lambda row: row.meme_id)
        page = behind[:limit]
        for row in page:
            await self._session.insert_absent(ENTRIES, GenerationEntry(generation_id, row))
        return page[-1].meme_id if page else None

    async def complete(self, generation_id: GenerationId) -> None:
        await self._session.lock(GENERATIONS, [generation_id])
        generation = self._get(generation_id)
        await self._session.update(GENERATIONS, evolve(generation, completed_at=self._session.now()))

    def _get(self, generation_id: GenerationId) -> Generation:
        generation = self._session.get(GENERATIONS, generation_id)
        assert generation is not None, "a generation is added before it is filled"
        return generation

    def _counted(self, generation: Generation) -> Generation:
        wanted = generation.generation_id
        entries = sum(row.generation_id == wanted for row in self._session.rows(ENTRIES))
        return evolve(generation, entries=entries)

"""Maintenance from the domain's values to the wire."""

from imgproc_adapters.http import wire_maintenance as wire
from imgproc_adapters.http.convert import coverage, diagnosis, task_message
from imgproc_adapters.http.identifiers import PageOf, write_cursor
from imgproc_domain.config import VectorSpace
from imgproc_domain.usecases.maintenance import GenerationPage, GenerationView
from imgproc_domain.usecases.migrate_search import MigrationStatus


def cache_generation(view: GenerationView) -> wire.CacheGenerationBody:
    task, found = view.task, view.generation
    return wire.CacheGenerationBody(
        task_id=task.task_id,
        status=task.status.value,
        message=task_message(task),
        generation_id=found.generation_id if found else None,
        model=found.space.id if found else None,
        dimension=found.space.dimension if found else None,
        entries=found.entries if found else 0,
        created_at=task.created_at,
        completed_at=found.completed_at if found else None,
        error=diagnosis(task.error),
    )


def cache_generation_page(page: GenerationPage) -> wire.CacheGenerationPage:
    return wire.CacheGenerationPage(
        items=[cache_generation(view) for view in page.generations],
        next_cursor=write_cursor(PageOf.GENERATIONS, page.after),
    )


def migration(found: MigrationStatus) -> wire.SearchMigrationBody:
    state, generation = found.state, found.generation
    return wire.SearchMigrationBody(
        mode=state.mode.value,
        epoch=state.epoch,
        read=_space(found.read),
        serving=_space(found.serving),
        filling=_space(state.filling) if state.filling else None,
        target=_space(found.target),
        missing=found.missing,
        coverage=coverage(found.coverage),
        generation_id=generation.generation_id if generation else None,
    )


def _space(space: VectorSpace) -> wire.SpaceBody:
    return wire.SpaceBody(space.id, space.dimension)

"""Every table. ``scope_id`` leads every key, unique key, foreign key and hot index; tests read the catalog to be sure.

Three reference tables have no scope: ``lane_slots`` bounds a lane over all scopes, ``embedding_spaces`` remembers
which dimension a space was first used with, and ``processing_configuration`` is what every process works with. Errors
and owners are plain text; statuses are text with a CHECK made from the domain's enum.
"""

from typing import Final

from sqlalchemy import DDL, event

from imgproc_adapters.postgres.schema import METADATA
from imgproc_adapters.postgres.tables_library import (
    cache_generation_entries,
    cache_generations,
    embedding_spaces,
    meme_contexts,
    memes,
    scopes,
    search_migrations,
    search_vectors,
    text_embeddings,
    visual_embeddings,
)
from imgproc_adapters.postgres.tables_policy import policy_quotas, policy_reservations
from imgproc_adapters.postgres.tables_processing import (
    execution_resolutions,
    grant_releases,
    image_processing_jobs,
    image_processing_stages,
    lane_slots,
    late_results,
    operation_grants,
    processing_configuration,
    task_attempts,
    tasks,
)

__all__ = [
    "METADATA",
    "VECTOR_TABLES",
    "cache_generation_entries",
    "cache_generations",
    "embedding_spaces",
    "execution_resolutions",
    "grant_releases",
    "image_processing_jobs",
    "image_processing_stages",
    "lane_slots",
    "late_results",
    "meme_contexts",
    "memes",
    "operation_grants",
    "policy_quotas",
    "policy_reservations",
    "processing_configuration",
    "scopes",
    "search_migrations",
    "search_vectors",
    "task_attempts",
    "tasks",
    "text_embeddings",
    "visual_embeddings",
]

VECTOR_TABLES: Final = ("visual_embeddings", "text_embeddings", "search_vectors", "cache_generation_entries")

for _table in METADATA.tables.values():
    if "scope_id" in _table.c:
        # The planner then takes a scope to be a fixed share of the table as it is now. With statistics it would take a
        # scope that was small or absent when they were gathered for one row, and read all of it to find one.
        _guess = DDL(f"ALTER TABLE {_table.name} ALTER COLUMN scope_id SET STATISTICS 0")  # type: ignore[no-untyped-call] # DDL ships untyped
        event.listen(_table, "after_create", _guess)

for _name in VECTOR_TABLES:
    # a vector is read whole or not at all: moved out of line it costs a second look-up, compressed it gains nothing
    _storage = DDL(f"ALTER TABLE {_name} ALTER COLUMN embedding SET STORAGE PLAIN")  # type: ignore[no-untyped-call] # DDL ships untyped
    event.listen(METADATA.tables[_name], "after_create", _storage)

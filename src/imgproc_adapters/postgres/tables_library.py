"""Tables of what people keep and find: pictures, contexts, vectors, and which vectors may be found."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Integer, Table, Text
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from imgproc_adapters.postgres.schema import (
    COVERED,
    MAX_DIMENSION,
    METADATA,
    belongs_to_scope,
    check,
    embedding,
    index,
    key,
    one_of,
    primary,
    refers,
    sha256_check,
    time,
    unique,
    uuid,
    vector_check,
)
from imgproc_domain.context import ContextStatus
from imgproc_domain.migration import SearchMode

_CHURNING: Final = {"autovacuum_vacuum_scale_factor": 0.02}

scopes: Final = Table(
    "scopes",
    METADATA,
    key("scope_id"),
    time("created_at"),
    primary("scopes", "scope_id"),
    check("scopes", "scope_id", "scope_id ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$'"),
)

memes: Final = Table(
    "memes",
    METADATA,
    key("scope_id"),
    uuid("meme_id"),
    Column("filename", Text, nullable=False),
    key("image_sha256"),
    Column("media_type", Text, nullable=False),
    Column("byte_size", BigInteger, nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("frames", Integer, nullable=False),
    Column("storage_key", Text, nullable=False),
    time("created_at"),
    time("updated_at"),
    time("deleted_at", nullable=True),
    primary("memes", "scope_id", "meme_id"),
    belongs_to_scope("memes"),
    sha256_check("memes", "image_sha256"),
    check("memes", "picture", "byte_size >= 0 AND width >= 0 AND height >= 0 AND frames >= 0"),
    index("memes", "live_content", "scope_id", "image_sha256", where="deleted_at IS NULL", unique=True),
    index("memes", "live", "scope_id", "meme_id", where="deleted_at IS NULL"),
    index("memes", "deleted", "scope_id", "meme_id", where="deleted_at IS NOT NULL"),
    postgresql_with={"fillfactor": 90},
)

meme_contexts: Final = Table(
    "meme_contexts",
    METADATA,
    key("scope_id"),
    uuid("meme_id"),
    Column("status", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("description", JSONB, nullable=False),
    key("metadata_hash", nullable=True),
    Column("provenance", JSONB),
    time("updated_at"),
    primary("meme_contexts", "scope_id", "meme_id"),
    refers("meme_contexts", "meme_id", "memes"),
    check("meme_contexts", "status", f"status {one_of(ContextStatus)}"),
    check("meme_contexts", "revision", "revision >= 0"),
    sha256_check("meme_contexts", "metadata_hash"),
)

visual_embeddings: Final = Table(
    "visual_embeddings",
    METADATA,
    key("scope_id"),
    uuid("meme_id"),
    key("image_sha256"),
    key("space_id"),
    Column("dimension", Integer, nullable=False),
    embedding(),
    time("created_at"),
    primary("visual_embeddings", "scope_id", "meme_id", "image_sha256", "space_id"),
    refers("visual_embeddings", "meme_id", "memes"),
    sha256_check("visual_embeddings", "image_sha256"),
    vector_check("visual_embeddings"),
)

# ``embedding_model_version`` is the space's id under the name its contract gives the key.
text_embeddings: Final = Table(
    "text_embeddings",
    METADATA,
    key("scope_id"),
    uuid("meme_id"),
    key("image_sha256"),
    key("metadata_hash"),
    key("embedding_model_version"),
    Column("dimension", Integer, nullable=False),
    embedding(),
    time("created_at"),
    primary("text_embeddings", "scope_id", "meme_id", "image_sha256", "metadata_hash", "embedding_model_version"),
    refers("text_embeddings", "meme_id", "memes"),
    sha256_check("text_embeddings", "image_sha256"),
    sha256_check("text_embeddings", "metadata_hash"),
    vector_check("text_embeddings"),
)

search_vectors: Final = Table(
    "search_vectors",
    METADATA,
    key("scope_id"),
    key("space_id"),
    uuid("meme_id"),
    key("image_sha256"),
    key("metadata_hash"),
    Column("dimension", Integer, nullable=False),
    embedding(),
    # NULL is not known yet: such a row is found by meaning alone
    Column("words", TSVECTOR),
    primary("search_vectors", "scope_id", "space_id", "meme_id"),
    refers("search_vectors", "meme_id", "memes"),
    sha256_check("search_vectors", "image_sha256"),
    sha256_check("search_vectors", "metadata_hash"),
    vector_check("search_vectors"),
    index("search_vectors", "words", "scope_id", "words", where="words IS NOT NULL", using="gin"),
    # an exact search reads this index alone, in which a scope's vectors lie side by side
    index("search_vectors", "near", "scope_id", "space_id", "meme_id", where=COVERED, include=["embedding"]),
    postgresql_with=_CHURNING,
)


def _space(side: str) -> Sequence[Column[Any]]:
    return key(f"{side}_space_id", nullable=True), Column(f"{side}_dimension", Integer)


search_migrations: Final = Table(
    "search_migrations",
    METADATA,
    key("scope_id"),
    Column("mode", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    time("updated_at"),
    *_space("serving"),
    *_space("filling"),
    primary("search_migrations", "scope_id"),
    belongs_to_scope("search_migrations"),
    check("search_migrations", "mode", f"mode {one_of(SearchMode)}"),
    check("search_migrations", "epoch", "epoch >= 1"),
    check("search_migrations", "serving", "(serving_space_id IS NULL) = (serving_dimension IS NULL)"),
    check("search_migrations", "filling", "(filling_space_id IS NULL) = (filling_dimension IS NULL)"),
    check("search_migrations", "spaces", "filling_space_id IS NULL OR filling_space_id <> serving_space_id"),
)

embedding_spaces: Final = Table(
    "embedding_spaces",
    METADATA,
    key("space_id"),
    Column("dimension", Integer, nullable=False),
    time("created_at"),
    primary("embedding_spaces", "space_id"),
    check("embedding_spaces", "dimension", f"dimension BETWEEN 1 AND {MAX_DIMENSION}"),
)

# A generation is complete, and may be read, once ``completed_at`` is set.
cache_generations: Final = Table(
    "cache_generations",
    METADATA,
    key("scope_id"),
    uuid("generation_id"),
    uuid("task_id"),
    key("space_id"),
    Column("dimension", Integer, nullable=False),
    time("created_at"),
    time("completed_at", nullable=True),
    primary("cache_generations", "scope_id", "generation_id"),
    unique("cache_generations", "task", "scope_id", "task_id"),
    belongs_to_scope("cache_generations"),
    refers("cache_generations", "task_id", "tasks"),
    check("cache_generations", "dimension", f"dimension BETWEEN 1 AND {MAX_DIMENSION}"),
)

cache_generation_entries: Final = Table(
    "cache_generation_entries",
    METADATA,
    key("scope_id"),
    uuid("generation_id"),
    uuid("meme_id"),
    key("image_sha256"),
    key("metadata_hash"),
    Column("dimension", Integer, nullable=False),
    embedding(),
    primary("cache_generation_entries", "scope_id", "generation_id", "meme_id"),
    refers("cache_generation_entries", "generation_id", "cache_generations"),
    refers("cache_generation_entries", "meme_id", "memes"),
    sha256_check("cache_generation_entries", "image_sha256"),
    sha256_check("cache_generation_entries", "metadata_hash"),
    vector_check("cache_generation_entries"),
)

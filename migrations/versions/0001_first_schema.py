"""The first schema: frozen as it was released, whatever the tables look like today.

Revision ID: 0001
Revises: none
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision: Final = "0001"
down_revision: Final = None
branch_labels: Final = None
depends_on: Final = None

# in an order in which they can be dropped
TABLES: Final = (
    "cache_generation_entries",
    "cache_generations",
    "task_attempts",
    "operation_grants",
    "image_processing_stages",
    "tasks",
    "image_processing_jobs",
    "grant_releases",
    "lane_slots",
    "visual_embeddings",
    "text_embeddings",
    "search_vectors",
    "meme_contexts",
    "search_migrations",
    "memes",
    "scopes",
    "embedding_spaces",
)


def key(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(collation="C"), nullable=nullable)


def text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def uuid(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Uuid(), nullable=nullable)


def time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def integer(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), nullable=nullable)


def rule(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def within(name: str, parent: str, column: str = "", *, deferred: bool = False) -> sa.ForeignKeyConstraint:
    """A reference to a row of the same scope."""
    columns = ["scope_id", column] if column else ["scope_id"]
    targets = [f"{parent}.{column}" for column in columns]
    initially = "DEFERRED" if deferred else None
    return sa.ForeignKeyConstraint(columns, targets, name=name, deferrable=deferred or None, initially=initially)


def partial(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    """A partial index: over live rows, or one that only the queries that ask for it may use."""
    op.create_index(name, table, columns, unique=unique, postgresql_where=sa.text(where))


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    create_library()
    create_processing()
    create_cache_generations()
    for table in TABLES:
        if table != "embedding_spaces":
            op.execute(f"ALTER TABLE {table} ALTER COLUMN scope_id SET STATISTICS 0")


def create_library() -> None:
    op.create_table(
        "embedding_spaces",
        key("space_id"),
        integer("dimension"),
        time("created_at"),
        rule("ck_embedding_spaces_dimension", "dimension BETWEEN 1 AND 3800"),
        sa.PrimaryKeyConstraint("space_id", name="pk_embedding_spaces"),
    )
    op.create_table(
        "scopes",
        key("scope_id"),
        time("created_at"),
        rule("ck_scopes_scope_id", "scope_id ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$'"),
        sa.PrimaryKeyConstraint("scope_id", name="pk_scopes"),
    )
    op.create_table(
        "memes",
        key("scope_id"),
        uuid("meme_id"),
        text("filename"),
        key("image_sha256"),
        text("media_type"),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        integer("width"),
        integer("height"),
        integer("frames"),
        text("storage_key"),
        time("created_at"),
        time("updated_at"),
        time("deleted_at", nullable=True),
        rule("ck_memes_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_memes_picture", "byte_size >= 0 AND width >= 0 AND height >= 0 AND frames >= 0"),
        within("fk_memes_scope", "scopes"),
        sa.PrimaryKeyConstraint("scope_id", "meme_id", name="pk_memes"),
        postgresql_with={"fillfactor": 90},
    )
    partial("ix_memes_live", "memes", ["scope_id", "meme_id"], "deleted_at IS NULL")
    partial("uq_memes_live_content", "memes", ["scope_id", "image_sha256"], "deleted_at IS NULL", unique=True)
    op.create_table(
        "search_migrations",
        key("scope_id"),
        text("mode"),
        integer("epoch"),
        time("updated_at"),
        rule("ck_search_migrations_mode", "mode IN ('legacy_only', 'backfill', 'incremental_only')"),
        rule("ck_search_migrations_epoch", "epoch >= 1"),
        within("fk_search_migrations_scope", "scopes"),
        sa.PrimaryKeyConstraint("scope_id", name="pk_search_migrations"),
    )
    op.create_table(
        "meme_contexts",
        key("scope_id"),
        uuid("meme_id"),
        text("status"),
        integer("revision"),
        sa.Column("description", postgresql.JSONB(), nullable=False),
        key("metadata_hash", nullable=True),
        sa.Column("provenance", postgresql.JSONB(), nullable=True),
        time("updated_at"),
        rule("ck_meme_contexts_metadata_hash", "octet_length(metadata_hash) = 64"),
        rule("ck_meme_contexts_status", "status IN ('pending', 'partial', 'ready', 'repair_required')"),
        rule("ck_meme_contexts_revision", "revision >= 0"),
        within("fk_meme_contexts_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint("scope_id", "meme_id", name="pk_meme_contexts"),
    )
    op.create_table(
        "search_vectors",
        key("scope_id"),
        key("space_id"),
        uuid("meme_id"),
        key("image_sha256"),
        key("metadata_hash"),
        integer("dimension"),
        sa.Column("embedding", HALFVEC(), nullable=False),
        rule("ck_search_vectors_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_search_vectors_metadata_hash", "octet_length(metadata_hash) = 64"),
        rule("ck_search_vectors_dimension", "dimension BETWEEN 1 AND 3800 AND vector_dims(embedding) = dimension"),
        within("fk_search_vectors_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint("scope_id", "space_id", "meme_id", name="pk_search_vectors"),
        postgresql_with={"autovacuum_vacuum_scale_factor": 0.02},
    )
    op.execute("ALTER TABLE search_vectors ALTER COLUMN embedding SET STORAGE PLAIN")
    op.create_table(
        "text_embeddings",
        key("scope_id"),
        uuid("meme_id"),
        key("image_sha256"),
        key("metadata_hash"),
        key("embedding_model_version"),
        integer("dimension"),
        sa.Column("embedding", HALFVEC(), nullable=False),
        time("created_at"),
        rule("ck_text_embeddings_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_text_embeddings_metadata_hash", "octet_length(metadata_hash) = 64"),
        rule("ck_text_embeddings_dimension", "dimension BETWEEN 1 AND 3800 AND vector_dims(embedding) = dimension"),
        within("fk_text_embeddings_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint(
            "scope_id", "meme_id", "image_sha256", "metadata_hash", "embedding_model_version", name="pk_text_embeddings"
        ),
    )
    op.execute("ALTER TABLE text_embeddings ALTER COLUMN embedding SET STORAGE PLAIN")
    op.create_table(
        "visual_embeddings",
        key("scope_id"),
        uuid("meme_id"),
        key("image_sha256"),
        key("space_id"),
        integer("dimension"),
        sa.Column("embedding", HALFVEC(), nullable=False),
        time("created_at"),
        rule("ck_visual_embeddings_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_visual_embeddings_dimension", "dimension BETWEEN 1 AND 3800 AND vector_dims(embedding) = dimension"),
        within("fk_visual_embeddings_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint("scope_id", "meme_id", "image_sha256", "space_id", name="pk_visual_embeddings"),
    )
    op.execute("ALTER TABLE visual_embeddings ALTER COLUMN embedding SET STORAGE PLAIN")


def create_processing() -> None:
    op.create_table(
        "lane_slots",
        key("lane"),
        integer("number"),
        key("scope_id", nullable=True),
        uuid("task_id", nullable=True),
        integer("generation", nullable=True),
        time("free_at", nullable=True),
        sa.Column("surplus", sa.Boolean(), nullable=False),
        rule("ck_lane_slots_lane", "lane IN ('visual', 'agent', 'text', 'maintenance')"),
        rule("ck_lane_slots_holder", "num_nonnulls(scope_id, task_id, generation) IN (0, 3)"),
        rule("ck_lane_slots_number", "number >= 1"),
        sa.PrimaryKeyConstraint("lane", "number", name="pk_lane_slots"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "grant_releases",
        key("scope_id"),
        key("operation"),
        key("logical_request_key"),
        text("reservation", nullable=True),
        time("created_at"),
        time("done_at", nullable=True),
        rule(
            "ck_grant_releases_operation",
            "operation IN ('analysis.agent', 'analysis.reverse_image_search', 'image.upload', 'image.delete')",
        ),
        within("fk_grant_releases_scope", "scopes"),
        sa.PrimaryKeyConstraint("scope_id", "operation", "logical_request_key", name="pk_grant_releases"),
    )
    partial(
        "ix_grant_releases_pending",
        "grant_releases",
        ["scope_id", "created_at", "operation", "logical_request_key"],
        "done_at IS NULL",
    )
    op.create_table(
        "image_processing_jobs",
        key("scope_id"),
        uuid("job_id"),
        uuid("meme_id"),
        integer("revision"),
        key("image_sha256"),
        key("reverse_image_policy"),
        key("config_fingerprint"),
        text("status"),
        time("created_at"),
        time("updated_at"),
        time("due_at", nullable=True),
        integer("claim_generation"),
        text("lease_owner", nullable=True),
        time("lease_expires_at", nullable=True),
        time("completed_at", nullable=True),
        text("error_code", nullable=True),
        text("error_message", nullable=True),
        time("retry_at", nullable=True),
        rule("ck_image_processing_jobs_terminal", "(status IN ('queued', 'running')) = (completed_at IS NULL)"),
        rule(
            "ck_image_processing_jobs_rest",
            "(status IN ('queued', 'running')) OR (due_at IS NULL AND lease_owner IS NULL)",
        ),
        rule("ck_image_processing_jobs_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_image_processing_jobs_policy", "reverse_image_policy IN ('forbid', 'auto')"),
        rule(
            "ck_image_processing_jobs_status",
            "status IN ('queued', 'running', 'succeeded', 'failed', 'blocked', 'unknown_execution')",
        ),
        rule("ck_image_processing_jobs_error", "(error_code IS NULL) = (error_message IS NULL)"),
        rule("ck_image_processing_jobs_lease", "(lease_owner IS NULL) = (lease_expires_at IS NULL)"),
        rule("ck_image_processing_jobs_generation", "claim_generation >= 0"),
        rule("ck_image_processing_jobs_error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
        rule("ck_image_processing_jobs_revision", "revision >= 1"),
        within("fk_image_processing_jobs_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint("scope_id", "job_id", name="pk_image_processing_jobs"),
        postgresql_with={
            "fillfactor": 80,
            "autovacuum_vacuum_scale_factor": 0.02,
            "autovacuum_analyze_scale_factor": 0.02,
        },
    )
    partial(
        "ix_image_processing_jobs_due", "image_processing_jobs", ["scope_id", "due_at", "job_id"], "due_at IS NOT NULL"
    )
    partial(
        "ix_image_processing_jobs_retryable",
        "image_processing_jobs",
        ["scope_id", "job_id"],
        "status IN ('blocked', 'failed', 'unknown_execution')",
    )
    partial(
        "uq_image_processing_jobs_revision",
        "image_processing_jobs",
        ["scope_id", "meme_id", "revision"],
        "revision >= 1",
        unique=True,
    )
    partial(
        "uq_image_processing_jobs_active",
        "image_processing_jobs",
        ["scope_id", "meme_id"],
        "status IN ('queued', 'running')",
        unique=True,
    )
    op.create_table(
        "tasks",
        key("scope_id"),
        uuid("task_id"),
        key("task_type"),
        text("status"),
        uuid("job_id", nullable=True),
        uuid("meme_id", nullable=True),
        key("image_sha256", nullable=True),
        key("config_fingerprint", nullable=True),
        key("reverse_image_policy", nullable=True),
        uuid("grant_id", nullable=True),
        integer("claim_generation"),
        text("lease_owner", nullable=True),
        time("lease_expires_at", nullable=True),
        time("available_at"),
        integer("failures"),
        integer("lease_losses"),
        time("created_at"),
        time("started_at", nullable=True),
        time("completed_at", nullable=True),
        text("error_code", nullable=True),
        text("error_message", nullable=True),
        rule("ck_tasks_running", "(status = 'running') = (lease_owner IS NOT NULL)"),
        rule("ck_tasks_terminal", "(status IN ('queued', 'running')) = (completed_at IS NULL)"),
        rule("ck_tasks_image_sha256", "octet_length(image_sha256) = 64"),
        rule(
            "ck_tasks_target",
            "num_nonnulls(job_id, meme_id, image_sha256, config_fingerprint, reverse_image_policy) ="
            " CASE WHEN task_type IN ('visual_embedding_generation', 'meme_context_generation',"
            " 'text_embedding_generation') THEN 5 ELSE 0 END",
        ),
        rule("ck_tasks_policy", "reverse_image_policy IN ('forbid', 'auto')"),
        rule("ck_tasks_failed", "status <> 'failed' OR error_code IS NOT NULL"),
        rule("ck_tasks_status", "status IN ('queued', 'running', 'succeeded', 'failed')"),
        rule(
            "ck_tasks_task_type",
            "task_type IN ('visual_embedding_generation', 'meme_context_generation',"
            " 'text_embedding_generation', 'cache_generation')",
        ),
        rule("ck_tasks_error", "(error_code IS NULL) = (error_message IS NULL)"),
        rule("ck_tasks_lease", "(lease_owner IS NULL) = (lease_expires_at IS NULL)"),
        rule("ck_tasks_counters", "failures >= 0 AND lease_losses >= 0"),
        rule("ck_tasks_generation", "claim_generation >= 0"),
        rule("ck_tasks_error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
        within("fk_tasks_job", "image_processing_jobs", "job_id"),
        within("fk_tasks_meme", "memes", "meme_id"),
        within("fk_tasks_scope", "scopes"),
        sa.PrimaryKeyConstraint("scope_id", "task_id", name="pk_tasks"),
        postgresql_with={
            "fillfactor": 80,
            "autovacuum_vacuum_scale_factor": 0.02,
            "autovacuum_analyze_scale_factor": 0.02,
        },
    )
    partial("ix_tasks_failed", "tasks", ["scope_id", "task_id"], "status = 'failed'")
    partial(
        "ix_tasks_queued_cache",
        "tasks",
        ["scope_id", "available_at", "task_id"],
        "status = 'queued' AND task_type = 'cache_generation'",
    )
    partial(
        "ix_tasks_queued_context",
        "tasks",
        ["scope_id", "available_at", "task_id"],
        "status = 'queued' AND task_type = 'meme_context_generation'",
    )
    partial(
        "ix_tasks_queued_text",
        "tasks",
        ["scope_id", "available_at", "task_id"],
        "status = 'queued' AND task_type = 'text_embedding_generation'",
    )
    partial(
        "ix_tasks_queued_visual",
        "tasks",
        ["scope_id", "available_at", "task_id"],
        "status = 'queued' AND task_type = 'visual_embedding_generation'",
    )
    partial("ix_tasks_running", "tasks", ["scope_id", "task_id"], "status = 'running'")
    partial(
        "uq_tasks_active_leaf",
        "tasks",
        ["scope_id", "meme_id", "image_sha256", "task_type", "config_fingerprint", "reverse_image_policy"],
        "status IN ('queued', 'running') AND meme_id IS NOT NULL",
        unique=True,
    )
    op.create_table(
        "image_processing_stages",
        key("scope_id"),
        uuid("job_id"),
        key("stage"),
        text("status"),
        sa.Column("reused", sa.Boolean(), nullable=False),
        uuid("task_id", nullable=True),
        text("error_code", nullable=True),
        text("error_message", nullable=True),
        time("retry_at", nullable=True),
        rule("ck_image_processing_stages_stage", "stage IN ('visual', 'agent', 'text_embedding')"),
        rule("ck_image_processing_stages_task", "status <> 'running' OR task_id IS NOT NULL"),
        rule(
            "ck_image_processing_stages_status",
            "status IN ('queued', 'running', 'succeeded', 'failed', 'blocked', 'unknown_execution')",
        ),
        rule("ck_image_processing_stages_error", "(error_code IS NULL) = (error_message IS NULL)"),
        rule("ck_image_processing_stages_error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
        within("fk_image_processing_stages_job", "image_processing_jobs", "job_id"),
        within("fk_image_processing_stages_task", "tasks", "task_id", deferred=True),
        sa.PrimaryKeyConstraint("scope_id", "job_id", "stage", name="pk_image_processing_stages"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "operation_grants",
        key("scope_id"),
        uuid("grant_id"),
        key("operation"),
        key("logical_request_key"),
        text("fingerprint"),
        text("reservation"),
        uuid("task_id"),
        uuid("job_id"),
        text("status"),
        time("created_at"),
        time("updated_at"),
        rule(
            "ck_operation_grants_operation",
            "operation IN ('analysis.agent', 'analysis.reverse_image_search', 'image.upload', 'image.delete')",
        ),
        rule("ck_operation_grants_fingerprint", "length(fingerprint) > 0"),
        rule("ck_operation_grants_status", "status IN ('acquired', 'committed', 'released', 'unknown')"),
        within("fk_operation_grants_job", "image_processing_jobs", "job_id"),
        within("fk_operation_grants_task", "tasks", "task_id", deferred=True),
        sa.PrimaryKeyConstraint("scope_id", "grant_id", name="pk_operation_grants"),
        postgresql_with={"fillfactor": 60},
    )
    partial(
        "uq_operation_grants_request",
        "operation_grants",
        ["scope_id", "operation", "logical_request_key"],
        "length(fingerprint) > 0",
        unique=True,
    )
    op.create_table(
        "task_attempts",
        key("scope_id"),
        uuid("task_id"),
        integer("attempt_no"),
        key("attempt_id"),
        text("request_id"),
        text("session_id"),
        integer("generation"),
        text("status"),
        text("input_digest"),
        time("created_at"),
        time("external_started_at", nullable=True),
        time("hard_deadline_at", nullable=True),
        time("completed_at", nullable=True),
        text("error_code", nullable=True),
        text("error_message", nullable=True),
        rule(
            "ck_task_attempts_terminal",
            "(status IN ('prepared', 'grant_committed', 'external_started')) = (completed_at IS NULL)",
        ),
        rule("ck_task_attempts_input_digest", "octet_length(input_digest) = 64"),
        rule(
            "ck_task_attempts_status",
            "status IN ('prepared', 'grant_committed', 'external_started', 'completed', 'failed', 'unknown_execution')",
        ),
        rule("ck_task_attempts_error", "(error_code IS NULL) = (error_message IS NULL)"),
        rule("ck_task_attempts_deadline", "(external_started_at IS NULL) = (hard_deadline_at IS NULL)"),
        rule("ck_task_attempts_attempt_no", "attempt_no >= 1"),
        rule("ck_task_attempts_generation", "generation >= 0"),
        rule("ck_task_attempts_error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
        within("fk_task_attempts_task", "tasks", "task_id"),
        sa.PrimaryKeyConstraint("scope_id", "task_id", "attempt_no", name="pk_task_attempts"),
        postgresql_with={"fillfactor": 50},
    )
    partial("uq_task_attempts_attempt", "task_attempts", ["scope_id", "attempt_id"], "attempt_no >= 1", unique=True)
    op.create_foreign_key(
        "fk_tasks_grant",
        "tasks",
        "operation_grants",
        ["scope_id", "grant_id"],
        ["scope_id", "grant_id"],
        deferrable=True,
        initially="DEFERRED",
    )


def create_cache_generations() -> None:
    op.create_table(
        "cache_generations",
        key("scope_id"),
        uuid("generation_id"),
        uuid("task_id"),
        key("space_id"),
        integer("dimension"),
        time("created_at"),
        time("completed_at", nullable=True),
        rule("ck_cache_generations_dimension", "dimension BETWEEN 1 AND 3800"),
        within("fk_cache_generations_task", "tasks", "task_id"),
        within("fk_cache_generations_scope", "scopes"),
        sa.PrimaryKeyConstraint("scope_id", "generation_id", name="pk_cache_generations"),
        sa.UniqueConstraint("scope_id", "task_id", name="uq_cache_generations_task"),
    )
    op.create_table(
        "cache_generation_entries",
        key("scope_id"),
        uuid("generation_id"),
        uuid("meme_id"),
        key("image_sha256"),
        key("metadata_hash"),
        integer("dimension"),
        sa.Column("embedding", HALFVEC(), nullable=False),
        rule("ck_cache_generation_entries_image_sha256", "octet_length(image_sha256) = 64"),
        rule("ck_cache_generation_entries_metadata_hash", "octet_length(metadata_hash) = 64"),
        rule(
            "ck_cache_generation_entries_dimension",
            "dimension BETWEEN 1 AND 3800 AND vector_dims(embedding) = dimension",
        ),
        within("fk_cache_generation_entries_generation", "cache_generations", "generation_id"),
        within("fk_cache_generation_entries_meme", "memes", "meme_id"),
        sa.PrimaryKeyConstraint("scope_id", "generation_id", "meme_id", name="pk_cache_generation_entries"),
    )

    op.execute("ALTER TABLE cache_generation_entries ALTER COLUMN embedding SET STORAGE PLAIN")


def downgrade() -> None:
    """The extension stays: others may use it."""
    op.drop_constraint("fk_tasks_grant", "tasks")
    for table in TABLES:
        op.drop_table(table)

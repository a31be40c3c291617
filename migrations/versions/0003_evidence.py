"""Late results, resolutions of unknown executions, and the one configuration that is processed with.

Revision ID: 0003
Revises: 0002
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"
branch_labels: Final = None
depends_on: Final = None

SCOPED: Final = ("late_results", "execution_resolutions")


def key(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def rule(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def of_task(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["scope_id", "task_id"], ["tasks.scope_id", "tasks.task_id"], name=name)


def upgrade() -> None:
    op.create_table(
        "late_results",
        key("scope_id"),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        key("attempt_id"),
        sa.Column("generation", sa.Integer(), nullable=False),
        text("fence"),
        text("outcome"),
        text("error_code", nullable=True),
        text("error_message", nullable=True),
        time("noted_at"),
        rule(
            "ck_late_results_fence",
            "fence IN ('missing', 'not_running', 'generation', 'owner', 'expired', 'attempt', 'slot')",
        ),
        rule(
            "ck_late_results_outcome",
            "outcome IN ('succeeded', 'already_valid', 'retry', 'failed', 'unknown', 'given_back', 'postponed',"
            " 'blocked')",
        ),
        rule("ck_late_results_error", "(error_code IS NULL) = (error_message IS NULL)"),
        rule("ck_late_results_error_size", "length(error_code) <= 64 AND length(error_message) <= 500"),
        of_task("fk_late_results_task"),
        sa.PrimaryKeyConstraint("scope_id", "task_id", "attempt_id", "generation", name="pk_late_results"),
    )
    op.create_table(
        "execution_resolutions",
        key("scope_id"),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        key("attempt_id"),
        text("reason"),
        sa.Column("owner_dead", sa.Boolean(), nullable=False),
        sa.Column("call_over", sa.Boolean(), nullable=False),
        text("evidence"),
        text("resolved_by"),
        time("resolved_at"),
        rule("ck_execution_resolutions_reason", "length(reason) BETWEEN 1 AND 500"),
        rule("ck_execution_resolutions_evidence", "length(evidence) <= 4000"),
        rule("ck_execution_resolutions_resolved_by", "length(resolved_by) BETWEEN 1 AND 200"),
        of_task("fk_execution_resolutions_task"),
        sa.PrimaryKeyConstraint("scope_id", "task_id", "attempt_id", name="pk_execution_resolutions"),
    )
    for table in SCOPED:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN scope_id SET STATISTICS 0")
    op.create_table(
        "processing_configuration",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        text("fingerprint"),
        text("configuration"),
        time("announced_at"),
        time("alive_until"),
        rule("ck_processing_configuration_one", "id = 1"),
        sa.PrimaryKeyConstraint("id", name="pk_processing_configuration"),
    )
    op.create_index(
        "ix_task_attempts_unknown",
        "task_attempts",
        ["scope_id", "task_id", "attempt_no"],
        postgresql_where=sa.text("status = 'unknown_execution'"),
    )
    # every agent task was given its grant when it was made, so this refuses no row that is there
    op.create_check_constraint(
        "ck_tasks_grant", "tasks", "(task_type = 'meme_context_generation') = (grant_id IS NOT NULL)"
    )


def downgrade() -> None:
    """Evidence and resolutions are gone with their tables; what they are about stays."""
    op.drop_constraint("ck_tasks_grant", "tasks")
    op.drop_index("ix_task_attempts_unknown", "task_attempts")
    for table in ("processing_configuration", *SCOPED):
        op.drop_table(table)

"""The quota policy's tables.

Revision ID: 0002
Revises: 0001
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"
branch_labels: Final = None
depends_on: Final = None

TABLES: Final = ("policy_reservations", "policy_quotas")
OPERATIONS: Final = "operation IN ('analysis.agent', 'analysis.reverse_image_search', 'image.upload', 'image.delete')"


def key(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def units() -> sa.Column[Any]:
    return sa.Column("units", sa.BigInteger(), nullable=False)


def rule(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def within_scope(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["scope_id"], ["scopes.scope_id"], name=name)


def upgrade() -> None:
    op.create_table(
        "policy_quotas",
        key("scope_id"),
        key("operation"),
        key("period"),
        units(),
        rule("ck_policy_quotas_operation", OPERATIONS),
        rule("ck_policy_quotas_period", "period IN ('minute', 'hour', 'day', 'week', 'month')"),
        rule("ck_policy_quotas_units", "units >= 0"),
        within_scope("fk_policy_quotas_scope"),
        sa.PrimaryKeyConstraint("scope_id", "operation", "period", name="pk_policy_quotas"),
    )
    op.create_table(
        "policy_reservations",
        key("scope_id"),
        key("operation"),
        key("logical_request_key"),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        units(),
        time("acquired_at"),
        time("committed_at", nullable=True),
        time("returned_at", nullable=True),
        rule("ck_policy_reservations_operation", OPERATIONS),
        rule("ck_policy_reservations_units", "units >= 0"),
        rule("ck_policy_reservations_fingerprint", "returned_at IS NOT NULL OR fingerprint IS NOT NULL"),
        rule("ck_policy_reservations_once", "committed_at IS NULL OR returned_at IS NULL"),
        within_scope("fk_policy_reservations_scope"),
        sa.PrimaryKeyConstraint("scope_id", "operation", "logical_request_key", name="pk_policy_reservations"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index(
        "ix_policy_reservations_counted",
        "policy_reservations",
        ["scope_id", "operation", "acquired_at"],
        postgresql_where=sa.text("returned_at IS NULL"),
    )
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN scope_id SET STATISTICS 0")


def downgrade() -> None:
    """What was counted is gone with the tables: quotas begin anew."""
    for table in TABLES:
        op.drop_table(table)

"""Search by words beside meaning, exact scans that read an index alone, and the space a scope is searched in.

``words`` of rows that were findable before are unknown until ``imgproc backfill embed`` has passed: they are found by
meaning alone until then.

Revision ID: 0006
Revises: 0005
"""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision: Final = "0006"
down_revision: Final = "0005"
branch_labels: Final = None
depends_on: Final = None

STATE: Final = "search_migrations"
VECTORS: Final = "search_vectors"
COVERED: Final = "dimension <= 1100"

# A scope is pinned to the space of the configuration in force, if it has vectors there, and else to one it has some in.
PIN: Final = """
    UPDATE search_migrations s
    SET serving_space_id = v.space_id, serving_dimension = v.dimension
    FROM (
        SELECT DISTINCT ON (scope_id) scope_id, space_id, dimension FROM search_vectors
        ORDER BY scope_id,
                 space_id IS NOT DISTINCT FROM (
                     SELECT c.configuration::jsonb #>> '{text,id}' FROM processing_configuration c WHERE c.id = 1
                 ) DESC,
                 space_id
    ) v
    WHERE v.scope_id = s.scope_id
"""


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS btree_gin")
    op.add_column(VECTORS, sa.Column("words", TSVECTOR()))
    op.create_index(
        "ix_search_vectors_words",
        VECTORS,
        ["scope_id", "words"],
        postgresql_using="gin",
        postgresql_where=sa.text("words IS NOT NULL"),
    )
    op.create_index(
        "ix_search_vectors_near",
        VECTORS,
        ["scope_id", "space_id", "meme_id"],
        postgresql_include=["embedding"],
        postgresql_where=sa.text(COVERED),
    )
    for side in ("serving", "filling"):
        op.add_column(STATE, sa.Column(f"{side}_space_id", sa.Text(collation="C")))
        op.add_column(STATE, sa.Column(f"{side}_dimension", sa.Integer()))
        op.create_check_constraint(
            f"ck_search_migrations_{side}", STATE, f"({side}_space_id IS NULL) = ({side}_dimension IS NULL)"
        )
    op.create_check_constraint(
        "ck_search_migrations_spaces", STATE, "filling_space_id IS NULL OR filling_space_id <> serving_space_id"
    )
    op.execute(PIN)


def downgrade() -> None:
    """The extension stays: others may use it."""
    op.drop_constraint("ck_search_migrations_spaces", STATE)
    for side in ("filling", "serving"):
        op.drop_constraint(f"ck_search_migrations_{side}", STATE)
        op.drop_column(STATE, f"{side}_dimension")
        op.drop_column(STATE, f"{side}_space_id")
    op.drop_index("ix_search_vectors_near", VECTORS)
    op.drop_index("ix_search_vectors_words", VECTORS)
    op.drop_column(VECTORS, "words")

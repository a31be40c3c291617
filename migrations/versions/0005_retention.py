"""Indexes by which history can go: what is deleted is looked for in what may refer to it, or by its own kind.

No query of the pipeline implies their conditions, so that none of them competes with a primary key there.

Revision ID: 0005
Revises: 0004
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"
branch_labels: Final = None
depends_on: Final = None

INDEXES: Final = (
    ("ix_memes_deleted", "memes", "meme_id", "deleted_at IS NOT NULL"),
    ("ix_tasks_maintenance", "tasks", "task_id", "task_type = 'cache_generation'"),
)
REVISION: Final = "uq_image_processing_jobs_revision"


def upgrade() -> None:
    for name, table, column, where in INDEXES:
        op.create_index(name, table, ["scope_id", column], postgresql_where=sa.text(where))
    make_revision_key("meme_id IS NOT NULL")


def make_revision_key(where: str) -> None:
    """As it is: unique over all rows, and for those queries alone that imply ``where``."""
    op.drop_index(REVISION, "image_processing_jobs")
    columns = ["scope_id", "meme_id", "revision"]
    op.create_index(REVISION, "image_processing_jobs", columns, unique=True, postgresql_where=sa.text(where))


def downgrade() -> None:
    make_revision_key("revision >= 1")
    for name, table, *_ in reversed(INDEXES):
        op.drop_index(name, table)

"""Less written for a job: no reference whose row is written with its parent, and no index that a finished row leaves.

Jobs, stages, tasks and grants of one picture name each other, and are written together under the locks of the picture
and the job: a job refers to its picture, a stage to its job, an attempt to its task, and nothing else is checked again
row by row. Who looks for unknown executions finds their tasks, so that no index holds an attempt's status and its
updates stay heap-only.

Revision ID: 0004
Revises: 0003
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"
branch_labels: Final = None
depends_on: Final = None

IMPLIED: Final = (
    ("fk_tasks_scope", "tasks", "scopes", None, False),
    ("fk_tasks_meme", "tasks", "memes", "meme_id", False),
    ("fk_tasks_job", "tasks", "image_processing_jobs", "job_id", False),
    ("fk_tasks_grant", "tasks", "operation_grants", "grant_id", True),
    ("fk_operation_grants_job", "operation_grants", "image_processing_jobs", "job_id", False),
    ("fk_operation_grants_task", "operation_grants", "tasks", "task_id", True),
    ("fk_image_processing_stages_task", "image_processing_stages", "tasks", "task_id", True),
)


def upgrade() -> None:
    op.drop_index("ix_task_attempts_unknown", "task_attempts")
    op.create_index(
        "ix_tasks_unknown",
        "tasks",
        ["scope_id", "task_id"],
        postgresql_where=sa.text("error_code = 'unknown_execution'"),
    )
    for name, table, *_ in IMPLIED:
        op.drop_constraint(name, table, type_="foreignkey")
    op.execute("ALTER TABLE tasks SET (fillfactor = 50)")


def downgrade() -> None:
    op.execute("ALTER TABLE tasks SET (fillfactor = 80)")
    for name, table, parent, column, deferred in IMPLIED:
        columns = ["scope_id", column] if column else ["scope_id"]
        op.create_foreign_key(
            name,
            table,
            parent,
            columns,
            columns,
            deferrable=deferred or None,
            initially="DEFERRED" if deferred else None,
        )
    op.drop_index("ix_tasks_unknown", "tasks")
    op.create_index(
        "ix_task_attempts_unknown",
        "task_attempts",
        ["scope_id", "task_id", "attempt_no"],
        postgresql_where=sa.text("status = 'unknown_execution'"),
    )

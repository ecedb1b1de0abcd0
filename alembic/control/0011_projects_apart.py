"""Let roles and invitations name projects that are in another database.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Who erases a project deletes these as well.
    for table in ("memberships", "invitations"):
        op.drop_constraint(op.f(f"fk_{table}_project_id"), table, type_="foreignkey")


def downgrade() -> None:
    # A worker of the version before leaves those of a project that it erases.
    op.execute("DELETE FROM memberships WHERE project_id NOT IN (SELECT id FROM projects)")
    op.execute("DELETE FROM invitations WHERE project_id NOT IN (SELECT id FROM projects)")
    for table in ("memberships", "invitations"):
        op.create_foreign_key(
            op.f(f"fk_{table}_project_id"), table, "projects", ["project_id"], ["id"], ondelete="CASCADE"
        )

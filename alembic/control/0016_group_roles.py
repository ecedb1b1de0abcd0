"""Keep the roles of groups at the OpenID provider.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "group_roles",
        sa.Column("project_id", sa.Text(), nullable=False, comment="The project; empty: all, for admins."),
        sa.Column("group_name", sa.Text(), nullable=False, comment="The group, as the provider's claim has it."),
        sa.Column("role", sa.Text(), nullable=False, comment="admin, member or viewer."),
        sa.CheckConstraint("role IN ('admin', 'member', 'viewer')", name=op.f("ck_group_roles_role")),
        sa.CheckConstraint("(role = 'admin') = (project_id = '')", name=op.f("ck_group_roles_project")),
        sa.PrimaryKeyConstraint("project_id", "group_name", name=op.f("pk_group_roles")),
    )


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM group_roles)")):
        raise NotImplementedError("It would lose the roles of groups.")
    op.drop_table("group_roles")

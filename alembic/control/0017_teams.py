"""Keep teams, and which projects they own.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "teams",
        sa.Column(
            "id",
            sa.Text(),
            nullable=False,
            comment="Identity: team:: and its short name, which no project can be called.",
        ),
        sa.Column("name", sa.Text(), nullable=False, comment="Name shown in pages."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was made (UTC)."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_teams")),
    )
    op.create_table(
        "team_projects",
        sa.Column("project_id", sa.Text(), nullable=False, comment="The project."),
        sa.Column("team_id", sa.Text(), nullable=False, comment="The team."),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_team_projects_team_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_team_projects")),
    )
    op.create_index("ix_team_projects_team_id", "team_projects", ["team_id"])


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM teams)")):
        raise NotImplementedError("It would lose teams, and who has a role by them.")
    op.drop_table("team_projects")
    op.drop_table("teams")

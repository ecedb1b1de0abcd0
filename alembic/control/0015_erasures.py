"""Keep erasures of people.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False, comment="Number of the row."),
        sa.Column("state", sa.Text(), nullable=False, comment="counting, counted, erasing, done or cancelled."),
        sa.Column(
            "names",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="The name and its hash, as runs have them; none once it is done or cancelled.",
        ),
        sa.Column(
            "label",
            sa.Text(),
            nullable=False,
            comment="Hash of the name under a secret of the server, by which the record can be compared.",
        ),
        sa.Column("at_cell", sa.Text(), nullable=True, comment="Cell that it has come to."),
        sa.Column("at_project", sa.Text(), nullable=True, comment="The last project of this cell that was looked at."),
        sa.Column("projects", sa.Integer(), nullable=False, comment="Projects when it began."),
        sa.Column("seen", sa.Integer(), nullable=False, comment="Projects that were looked at."),
        sa.Column(
            "found",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="By project: its runs in each place, as counted or as erased.",
        ),
        sa.Column("problem", sa.Text(), nullable=True, comment="Why it waits; empty while it goes on."),
        sa.Column("author", sa.Text(), nullable=False, comment="Who asked for it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was asked for (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it last went on (UTC)."),
        sa.CheckConstraint(
            "state IN ('counting', 'counted', 'erasing', 'done', 'cancelled')", name=op.f("ck_erasures_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM erasures)")):
        raise NotImplementedError("It would lose the erasures.")
    op.drop_table("erasures")

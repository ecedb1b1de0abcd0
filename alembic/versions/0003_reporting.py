"""The outbox. The reporting table has a history of its own, in alembic/reporting.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "outbox",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the run."),
        sa.Column("run_id", sa.Text(), nullable=False, comment="The run."),
        sa.Column("version", sa.Integer(), nullable=False, comment="Version of the run that is to be pushed."),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False, comment="Since when the run waits (UTC)."),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it may be pushed next (UTC): at once, or after a pause, or when a relay that has it has had "
            "its time.",
        ),
        sa.Column(
            "attempts",
            sa.SmallInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Pushes of this version that failed.",
        ),
        sa.Column(
            "parked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the relay gave up, until somebody retries (UTC).",
        ),
        sa.Column("last_error", sa.Text(), nullable=True, comment="Why the last push failed; never content."),
        sa.PrimaryKeyConstraint("project_id", "run_id", name=op.f("pk_outbox")),
    )
    op.create_index("ix_outbox_due_at", "outbox", ["due_at"], postgresql_where=sa.text("parked_at IS NULL"))


def downgrade() -> None:
    op.drop_table("outbox")

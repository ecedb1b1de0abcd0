"""Add the manifest of the archive.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "archive_files",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Number of the file, a part of its name."),
        sa.Column("state", sa.Text(), nullable=False, comment="writing, kept or removing."),
        sa.Column("path", sa.Text(), nullable=False, comment="Place below ARCHIVE_URL."),
        sa.Column(
            "first_at", sa.DateTime(timezone=True), nullable=False, comment="When the first of the runs was made (UTC)."
        ),
        sa.Column(
            "last_at", sa.DateTime(timezone=True), nullable=False, comment="When the last of the runs was made (UTC)."
        ),
        sa.Column("runs", sa.Integer(), server_default=sa.text("0"), nullable=False, comment="Runs."),
        sa.Column(
            "cost_usd",
            sa.Numeric(precision=38, scale=12),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of the runs in US dollars.",
        ),
        sa.Column(
            "input_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Input tokens of the runs.",
        ),
        sa.Column(
            "output_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Output tokens of the runs.",
        ),
        sa.Column(
            "size_bytes",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Size of the file in bytes.",
        ),
        sa.Column("sha256", sa.LargeBinary(), nullable=True, comment="SHA-256 of the file; empty until it is kept."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When writing began (UTC)."),
        sa.CheckConstraint("state IN ('writing', 'kept', 'removing')", name=op.f("ck_archive_files_state")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_archive_files")),
    )
    op.create_table(
        "installation",
        sa.Column("number", sa.SmallInteger(), nullable=False, comment="Always 1."),
        sa.Column(
            "id",
            sa.Uuid(),
            nullable=False,
            comment="Identity, which the archive has in its file runtally-archive.json.",
        ),
        sa.Column(
            "stopped_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When archiving was stopped by a command (UTC); empty: runs are dropped only once they are archived.",
        ),
        sa.CheckConstraint("number = 1", name=op.f("ck_installation_number")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_installation")),
    )


def downgrade() -> None:
    raise NotImplementedError("Nothing would know which runs are in the archive.")

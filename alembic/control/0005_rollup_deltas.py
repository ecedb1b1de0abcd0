"""Add what waits to be added to the sums of all projects together.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "rollup_deltas",
        sa.Column(
            "bucket",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="Start of a bucket of the shortest length (UTC).",
        ),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider of the runs."),
        sa.Column("model", sa.Text(), nullable=False, comment="Model of the runs."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs."),
        sa.Column("errors", sa.BigInteger(), nullable=False, comment="Runs that ended in an error."),
        sa.Column("timeouts", sa.BigInteger(), nullable=False, comment="Runs that ended in a timeout."),
        sa.Column("unpriced", sa.BigInteger(), nullable=False, comment="Runs whose cost is not known."),
        sa.Column("estimated", sa.BigInteger(), nullable=False, comment="Runs whose cost is an estimate."),
        sa.Column("cost_usd", sa.Numeric(), nullable=False, comment="Cost in US dollars."),
        sa.Column(
            "input_tokens",
            sa.Numeric(),
            nullable=False,
            comment="Input tokens, cached ones included.",
        ),
        sa.Column(
            "output_tokens",
            sa.Numeric(),
            nullable=False,
            comment="Output tokens, reasoning included.",
        ),
        sa.Column(
            "cached_input_tokens",
            sa.Numeric(),
            nullable=False,
            comment="Input tokens read from a cache.",
        ),
        sa.Column(
            "cache_write_tokens",
            sa.Numeric(),
            nullable=False,
            comment="Input tokens written to a cache.",
        ),
        sa.Column(
            "reasoning_tokens",
            sa.Numeric(),
            nullable=False,
            comment="Output tokens spent on reasoning.",
        ),
        sa.Column(
            "audio_input_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Input tokens of audio.",
        ),
        sa.Column(
            "audio_output_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Output tokens of audio.",
        ),
        sa.Column(
            "error_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in an error.",
        ),
        sa.Column(
            "timeout_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in a timeout.",
        ),
        sa.Column(
            "cache_savings_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What caches saved in US dollars.",
        ),
        sa.PrimaryKeyConstraint("bucket", "id", name=op.f("pk_rollup_deltas")),
    )
    # Its rows are inserted and deleted within seconds.
    op.execute("ALTER TABLE rollup_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)")


def downgrade() -> None:
    raise NotImplementedError("It would lose what waits.")

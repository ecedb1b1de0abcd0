"""What came by OTLP, by who sent it.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "otlp_clients",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project that its runs belong to, also if it has none yet."
        ),
        sa.Column("service", sa.Text(), nullable=False, comment="Name of the service."),
        sa.Column("exporter", sa.Text(), nullable=False, comment="Family of the exporter, as its requests say."),
        sa.Column("signal", sa.Text(), nullable=False, comment="traces or logs."),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False, comment="When the first request came (UTC)."),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False, comment="When the last one came (UTC)."),
        sa.Column("requests", sa.BigInteger(), nullable=False, comment="Requests."),
        sa.Column("records", sa.BigInteger(), nullable=False, comment="Spans or log records."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Of these, stored as runs, now or before."),
        sa.Column("twins", sa.BigInteger(), nullable=False, comment="Of these, told of by another record too."),
        sa.Column("rejected", sa.BigInteger(), nullable=False, comment="Of these, rejected."),
        sa.Column("no_calls", sa.BigInteger(), nullable=False, comment="Of these, no calls of models."),
        sa.Column(
            "told_elsewhere",
            sa.BigInteger(),
            nullable=False,
            comment="Of these, of an agent that is read from another signal.",
        ),
        sa.PrimaryKeyConstraint("project_id", "service", "exporter", "signal", name=op.f("pk_otlp_clients")),
    )


def downgrade() -> None:
    op.drop_table("otlp_clients")

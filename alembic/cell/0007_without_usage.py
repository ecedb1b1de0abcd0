"""Count runs that report no usage, and runs of which a unit has no price, in every sum.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COMMENTS = {
    "partly_priced": "Runs of which a unit has no price, so that their cost is a minimum.",
    "without_usage": "Runs of models with a price that report no usage, so that their cost is that of nothing.",
}
SUMS = ("rollup_deltas", "rollup_totals", "rollups")
# A sum for each of the others in its row. No run that is stored already is marked.
FILL = "UPDATE {table} SET without_usage = array_fill(0::bigint, ARRAY[cardinality(runs)])"


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column(
            "without_usage",
            sa.Boolean(),
            nullable=True,
            comment="True where the cost is that of nothing: the model has a price, and the run neither tokens nor other "
            "units nor a reported cost; empty otherwise.",
        ),
    )
    for table in SUMS:
        for name, comment in COMMENTS.items():
            op.add_column(
                table,
                sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment=comment),
            )
    for table in ("dimension_deltas", "dimension_sums"):
        column = sa.Column(
            "without_usage", postgresql.ARRAY(sa.BigInteger()), nullable=True, comment=COMMENTS["without_usage"]
        )
        op.add_column(table, column)
        op.execute(FILL.format(table=table))
        op.alter_column(table, "without_usage", nullable=False)
    # As the other arrays of the table: read once, and soon.
    op.execute("ALTER TABLE dimension_deltas ALTER COLUMN without_usage SET STORAGE EXTERNAL")


def downgrade() -> None:
    for table in ("dimension_sums", "dimension_deltas"):
        op.drop_column(table, "without_usage")
    for table in SUMS:
        for name in COMMENTS:
            op.drop_column(table, name)
    op.drop_column("runs", "without_usage")

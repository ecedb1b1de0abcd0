"""Let what is to be added to sums wait for those of its project, too, not only for those of all projects together.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COMMENT = "Project of the runs; empty: of sums that were only to be added to those of all projects."


def upgrade() -> None:
    op.rename_table("rollup_deltas", "sum_deltas")
    op.add_column("sum_deltas", sa.Column("project_id", sa.Text(), nullable=False, server_default="", comment=COMMENT))
    op.drop_constraint("pk_rollup_deltas", "sum_deltas")
    op.create_primary_key("pk_sum_deltas", "sum_deltas", ["project_id", "bucket", "id"])
    # Workers of the version before, which may go on for a while, add to the sums of projects at once. Under the old name they
    # find, add and merge what waits for the sums of all projects alone. A later version drops the view.
    columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns("sum_deltas")]
    names = ", ".join(name for name in columns if name != "project_id")
    op.execute(f"CREATE VIEW rollup_deltas AS SELECT ctid, {names} FROM sum_deltas WHERE project_id = ''")  # noqa: S608  # Our own columns.


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM sum_deltas WHERE project_id <> '')")):
        raise NotImplementedError("The sums of projects would lack what waits; try again once it is merged.")
    op.execute("DROP VIEW rollup_deltas")
    op.drop_constraint("pk_sum_deltas", "sum_deltas")
    op.drop_column("sum_deltas", "project_id")
    op.rename_table("sum_deltas", "rollup_deltas")
    op.create_primary_key("pk_rollup_deltas", "rollup_deltas", ["bucket", "id"])

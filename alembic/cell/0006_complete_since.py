"""Note since when the sums of a tracked key are complete, and count again what was left out of them.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Keys that became tracked when days had been dropped: their sums begin with the first day that was counted. A key without
# sums of any dropped day may lack days that are there as well, as these were counted together; they are counted anew.
FIND_INCOMPLETE = """
UPDATE tracked_keys
   SET complete_since = least(found.first_sums, found.dropped_before),
       state = CASE WHEN found.first_sums < found.dropped_before THEN state ELSE 'filling' END,
       filled_until = CASE WHEN found.first_sums < found.dropped_before THEN filled_until ELSE found.dropped_before END
  FROM (SELECT keys.project_id, keys.key,
               (projects.dropped_before AT TIME ZONE 'UTC')::date AS dropped_before,
               (SELECT min(day) FROM dimension_sums WHERE project_id = keys.project_id AND key_id = keys.id) AS first_sums,
               (SELECT min(bucket) AT TIME ZONE 'UTC'
                  FROM rollup_totals
                 WHERE project_id = keys.project_id AND grain = 1440 AND runs > 0)::date AS first_runs
          FROM tracked_keys AS keys
               JOIN projects ON projects.id = keys.project_id
         WHERE keys.state = 'tracked' AND projects.dropped_before IS NOT NULL) AS found
 WHERE (tracked_keys.project_id, tracked_keys.key) = (found.project_id, found.key)
   AND found.first_runs < found.dropped_before
   AND (found.first_sums IS NULL OR found.first_runs < found.first_sums)
"""


def upgrade() -> None:
    op.add_column(
        "tracked_keys",
        sa.Column(
            "complete_since",
            sa.Date(),
            nullable=True,
            comment="Its sums have all runs of this day and later ones; empty: of all days.",
        ),
    )
    op.execute(FIND_INCOMPLETE)


def downgrade() -> None:
    op.drop_column("tracked_keys", "complete_since")

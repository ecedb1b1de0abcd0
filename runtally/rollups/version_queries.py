"""SQL of whether runs changed: whatever is done to one changes the row of its day, and every change of a row has a number."""

from collections.abc import Sequence
from datetime import datetime

from runtally.db.database import Connection
from runtally.models.rollup import TOTAL_GRAINS, RollupScope

_CHANGES = f"""
SELECT string_agg(xmin::text, ' ' ORDER BY bucket)
  FROM rollup_totals
 WHERE project_id = {{project}}
   AND grain = {TOTAL_GRAINS[-1].minutes}
   AND bucket > $2::timestamptz - interval '{TOTAL_GRAINS[-1].minutes} minutes'
"""
SELECT_VERSION = f"SELECT md5(({_CHANGES.format(project='$1')}))"
# Dropping runs leaves their sums as they are. It is announced before it begins, and goes on for a while: until the last is gone
# there is no version.
SELECT_VERSIONS_OF_KEPT = f"""
SELECT id,
       md5(concat_ws(' ', dropped_before, ({_CHANGES.format(project="projects.id")}
   AND bucket < $3)))
  FROM projects
 WHERE id = ANY ($1::text[])
   AND NOT EXISTS (SELECT FROM runs WHERE project_id = projects.id AND occurred_at < projects.dropped_before)
"""


async def select_version(connection: Connection, since: datetime, project_id: str | None) -> str | None:
    """A text that differs whenever a run of the time since then has come, changed or gone."""
    version: str | None = await connection.fetchval(SELECT_VERSION, RollupScope(project_id).key, since)
    return version


async def select_versions_of_kept(
    connection: Connection, project_ids: Sequence[str], since: datetime, until: datetime
) -> dict[str, str]:
    """The same of each project until a midnight; also when runs were dropped whose sums are kept.

    A project of which runs are being dropped is not there: what is read of it now is soon different.
    """
    rows = await connection.fetch(SELECT_VERSIONS_OF_KEPT, project_ids, since, until)
    return {row[0]: row[1] for row in rows}

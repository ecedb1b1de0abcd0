"""SQL of incidents: those that alerts have opened, and those that are to be closed."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runtally.db.bulk import affected_rows
from runtally.db.database import Connection
from runtally.models.alert import AlertKind


def quiet(kind: str, project: str) -> str:
    """SQL of the moment until which alerts of a kind keep quiet about a project: `$1` is now, `$2` how long an alert does.

    One that an incident was closed for does so until then: its figure is back, so that a relapse is news. What a clock dated
    that was further ahead silences nothing.
    """
    return f"""(SELECT max(coalesce((SELECT max(least(closed.due_at, $1::timestamptz))
                                       FROM alert_deliveries AS closed
                                      WHERE closed.project_id = alerts.project_id
                                        AND closed.alert_id = alerts.id
                                        AND NOT closed.is_open), alerts.created_at + $2::interval))
                  FROM alerts
                 WHERE alerts.project_id = {project}
                   AND alerts.kind = {kind}
                   AND alerts.created_at <= $1 + $2
                   AND alerts.created_at > $1 - interval '2 days')"""


# An alert that no target took yet has opened nothing.
SELECT_OPEN = """
  SELECT alerts.project_id, alerts.id, alerts.kind, alerts.subject, alerts.created_at
    FROM alerts
   WHERE EXISTS (SELECT
                   FROM alert_deliveries AS opened
                  WHERE opened.project_id = alerts.project_id
                    AND opened.alert_id = alerts.id
                    AND opened.is_open
                    AND opened.delivered_at IS NOT NULL)
ORDER BY alerts.project_id, alerts.id
"""

# The same row is sent again, now to close what it opened: by one process, tried as often as the first time.
CLOSE = """
UPDATE alert_deliveries AS opened
   SET is_open = FALSE,
       delivered_at = NULL,
       attempts = 0,
       due_at = $3,
       answer = NULL
  FROM unnest($1::text[], $2::uuid[]) AS over (project_id, alert_id)
 WHERE opened.project_id = over.project_id
   AND opened.alert_id = over.alert_id
   AND opened.is_open
   AND opened.delivered_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that has opened an incident."""

    project_id: str
    id: UUID
    kind: AlertKind
    subject: str
    created_at: datetime


async def select_open(connection: Connection) -> tuple[OpenAlert, ...]:
    """Read the alerts that have opened incidents."""
    return tuple(
        OpenAlert(row["project_id"], row["id"], AlertKind(row["kind"]), row["subject"], row["created_at"])
        for row in await connection.fetch(SELECT_OPEN)
    )


async def close(connection: Connection, over: Collection[OpenAlert], now: datetime) -> int:
    """Queue the closing of the incidents of these alerts, and return how many."""
    if not over:
        return 0
    ids = [one.project_id for one in over], [one.id for one in over]
    return affected_rows(await connection.execute(CLOSE, *ids, now))

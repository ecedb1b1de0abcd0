"""SQL that evaluates alerts: those sent so far and their incidents, the cost of recent hours, and the insert of new alerts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from runtally.alerts.budget_alerts import Alerted, Alerts
from runtally.alerts.message import Message
from runtally.alerts.week import WEEK, ModelSpend, Week, WeeklySpend
from runtally.clock import HOUR
from runtally.db.bulk import affected_rows
from runtally.db.database import Connection
from runtally.fields import TEAM
from runtally.models.alert import NEVER_OVER, OPENED_AT, AlertKind
from runtally.models.rollup import GRAINS
from runtally.usage.sums.tables import SLICES, TOTALS


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


_HOURLY = next(grain.minutes for grain in GRAINS if grain.length == HOUR)
_LASTING = GRAINS[-1].minutes
_LOCK = 0x52_75_6E_74_61_6C_6C_79
"""The lock's number: "Runtally"."""

# Only one of several processes evaluates at a time, until its transaction ends.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1)"

SELECT_BUDGET_ALERTS = """
SELECT project_id, subject, level, created_at, named
  FROM alerts
 WHERE kind = 'budget'
   AND created_at >= $1
"""

# Projects that have a target for alerts on unusual cost, unless there was such an alert lately and it is not over; and since
# when these hours are watched.
SELECT_TARGETED = f"""
SELECT project_id, least(greatest(added_at, quiet_until), $1) AS since
  FROM (SELECT project_id, min(created_at) AS added_at, {quiet("'anomaly'", "alert_targets.project_id")} AS quiet_until
          FROM alert_targets
         WHERE of_unusual_cost
      GROUP BY project_id) AS targeted
 WHERE quiet_until IS NULL
    OR quiet_until <= $1
"""

SELECT_HAS_TEAMS = f"""
SELECT EXISTS (SELECT FROM budgets WHERE starts_with(project_id, '{TEAM}'))
       OR EXISTS (SELECT FROM alert_targets WHERE starts_with(project_id, '{TEAM}'))
"""

SELECT_HOURLY_COSTS = f"""
  SELECT targeted.project_id, first.bucket AS first_bucket, hourly.bucket, sum(hourly.cost_usd) AS cost_usd
    FROM unnest($1::text[]) AS targeted (project_id)
         CROSS JOIN LATERAL (SELECT min(bucket) AS bucket
                               FROM {TOTALS.rows_of_projects} AS held
                              WHERE project_id = targeted.project_id
                                AND grain = {_LASTING}) AS first
         JOIN {TOTALS.rows_of_projects} AS hourly
           ON hourly.project_id = targeted.project_id
          AND hourly.grain = {_HOURLY}
          AND hourly.bucket = ANY($2::timestamptz[])
GROUP BY 1, 2, 3
"""

SELECT_MODELS = f"""
  SELECT provider, model, sum(cost_usd) AS cost_usd
    FROM {SLICES.rows_of_projects} AS held
   WHERE project_id = $1
     AND grain = {_HOURLY}
     AND bucket = $2
GROUP BY provider, model
  HAVING sum(cost_usd) > 0
ORDER BY sum(cost_usd) DESC, provider, model
"""

# The row is the decision: a second process inserts nothing.
INSERT_ALERT = """
INSERT INTO alerts (project_id, id, kind, subject, level, named, title, message, document, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (project_id, kind, subject, level) DO NOTHING
  RETURNING id
"""

INSERT_DELIVERIES = """
INSERT INTO alert_deliveries (project_id, alert_id, target_id, attempts, due_at, is_open)
     SELECT project_id, $2, id, 0, $3, CASE WHEN kind = ANY ($5::text[]) AND $4 <> ALL ($6::text[]) THEN TRUE END
       FROM alert_targets
      WHERE project_id = $1
        AND (weekly_report OR $4 <> 'report')
        AND (of_unusual_cost OR $4 <> 'anomaly')
"""

# A target that was added later waits for the next report.
SELECT_DUE_REPORTS = """
SELECT DISTINCT project_id
  FROM alert_targets
 WHERE weekly_report
   AND created_at < $1
   AND NOT EXISTS (SELECT
                     FROM alerts
                    WHERE alerts.project_id = alert_targets.project_id
                      AND alerts.kind = 'report'
                      AND alerts.subject = $2)
"""

# In the longest buckets, whose bounds are those of days, too.
SELECT_WEEKLY_SPEND = f"""
  SELECT project_id,
         provider,
         model,
         coalesce(sum(cost_usd) FILTER (WHERE bucket >= $3), 0) AS cost_usd,
         coalesce(sum(cost_usd) FILTER (WHERE bucket < $3), 0) AS previous_usd,
         coalesce(sum(runs) FILTER (WHERE bucket >= $3), 0)::bigint AS runs,
         coalesce(sum(unpriced) FILTER (WHERE bucket >= $3), 0)::bigint AS unpriced,
         coalesce(sum(partly_priced) FILTER (WHERE bucket >= $3), 0)::bigint AS partly_priced
    FROM {SLICES.rows_of_projects} AS held
   WHERE project_id = ANY ($1::text[])
     AND grain = {_LASTING}
     AND bucket >= $2
     AND bucket < $4
GROUP BY project_id, provider, model
ORDER BY project_id, provider, model
"""

SELECT_NAMES = """
SELECT id, name
  FROM projects
 WHERE id = ANY($1::text[])
"""


@dataclass(frozen=True, slots=True)
class HourlyCosts:
    """The costs of some hours of a project; hours without runs are missing. It has runs since `first_at`."""

    project_id: str
    first_at: datetime
    costs_usd: dict[datetime, Decimal]

    def __add__(self, other: "HourlyCosts") -> "HourlyCosts":
        hours = {*self.costs_usd, *other.costs_usd}
        added = {at: self.costs_usd.get(at, Decimal(0)) + other.costs_usd.get(at, Decimal(0)) for at in hours}
        return HourlyCosts(self.project_id, min(self.first_at, other.first_at), added)

    def of(self, owner: str) -> "HourlyCosts":
        """Return them as those of an owner of its project."""
        return replace(self, project_id=owner)


async def try_lock(connection: Connection) -> bool:
    """Return whether no other process evaluates; the lock is held until the transaction ends."""
    return bool(await connection.fetchval(TRY_LOCK, _LOCK))


async def select_budget_alerts(connection: Connection, since: datetime) -> Alerts:
    """Return the alerts on budgets that were decided since then."""
    found: dict[tuple[str, str], dict[int, Alerted]] = {}
    for row in await connection.fetch(SELECT_BUDGET_ALERTS, since):
        alerted = Alerted(row["created_at"], frozenset(row["named"]))
        found.setdefault((row["project_id"], row["subject"]), {})[row["level"]] = alerted
    return found


async def select_hourly_costs(
    connection: Connection, project_ids: Iterable[str], hours: Iterable[datetime]
) -> tuple[HourlyCosts, ...]:
    """Return the costs of these projects."""
    found: dict[str, HourlyCosts] = {}
    for row in await connection.fetch(SELECT_HOURLY_COSTS, list(project_ids), list(hours)):
        project = found.setdefault(row["project_id"], HourlyCosts(row["project_id"], row["first_bucket"], {}))
        project.costs_usd[row["bucket"]] = row["cost_usd"]
    return tuple(found.values())


async def select_weekly_spend(
    connection: Connection, project_ids: Iterable[str], week: Week
) -> tuple[WeeklySpend, ...]:
    """Return the spend of these projects."""
    bounds = (week.start - WEEK, week.start, week.end)
    rows = await connection.fetch(SELECT_WEEKLY_SPEND, list(project_ids), *bounds)
    return tuple(
        WeeklySpend(project_id, week, tuple(ModelSpend(*row[1:]) for row in of_project))
        for project_id, of_project in groupby(map(tuple, rows), key=itemgetter(0))
    )


async def select_names(connection: Connection, project_ids: Iterable[str]) -> dict[str, str]:
    return {row["id"]: row["name"] for row in await connection.fetch(SELECT_NAMES, list(project_ids))}


async def insert_alert(connection: Connection, project_id: str, id_: UUID, message: Message, now: datetime) -> bool:
    """Store an alert with a delivery for each target; return False if there is one already."""
    named = list(message.named)
    columns = (message.kind, message.subject, message.level, named, message.title, message.text, message.document)
    if await connection.fetchval(INSERT_ALERT, project_id, id_, *columns, now) is None:
        return False
    await connection.execute(INSERT_DELIVERIES, project_id, id_, now, message.kind, list(OPENED_AT), list(NEVER_OVER))
    return True

"""SQL of alert rules: the rules, those that alerted lately, and the sums of projects in the last hour."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from runtally.alerts.recovery_queries import quiet
from runtally.alerts.rules import RULE_KINDS, Rule
from runtally.db.database import Connection
from runtally.models.alert import AlertKind
from runtally.models.measures import columns_over_sums, measures_named
from runtally.models.rollup import GRAINS
from runtally.usage.summary_queries import totals_reader
from runtally.usage.totals import Totals
from runtally.usage.window import TimeSpan

MEASURES = ("runs", "errors", "timeouts", "input_tokens", "cached_input_tokens")

SELECT_RULES = f"""
  SELECT project_id, kind, threshold, of_unusual, min_runs, least(greatest(updated_at, quiet_until), $1) AS since
    FROM (SELECT rules.*, {quiet("rules.kind", "rules.project_id")} AS quiet_until
            FROM alert_rules AS rules) AS watched
   WHERE quiet_until IS NULL
      OR quiet_until <= $1
ORDER BY project_id, kind
"""

SELECT_HOURLY_RUNS = f"""
  SELECT project_id, bucket, sum(runs)::bigint AS runs
    FROM rollups
   WHERE project_id = ANY ($1::text[])
     AND grain = {GRAINS[1].minutes}
     AND bucket >= $2
     AND bucket < $3
GROUP BY project_id, bucket
"""

SELECT_LAST_HOUR = f"""
  SELECT project_id, {columns_over_sums(measures_named(*MEASURES))}
    FROM rollups
   WHERE project_id = ANY ($1::text[])
     AND grain = {GRAINS[0].minutes}
     AND bucket >= $2
     AND bucket < $3
GROUP BY project_id
"""


async def select_rules(connection: Connection, now: datetime, quiet_time: timedelta) -> tuple[Rule, ...]:
    """Read the rules of all projects, but not those that alerted within the quiet time and whose alert is not known to be over."""
    rows = await connection.fetch(SELECT_RULES, now, quiet_time)
    return tuple(Rule(row[0], AlertKind(row["kind"]), *row[2:]) for row in rows if row["kind"] in set(RULE_KINDS))


async def select_hourly_runs(
    connection: Connection, project_ids: Iterable[str], span: TimeSpan
) -> dict[tuple[str, datetime], int]:
    """Read how many runs each hour of these projects has; hours without runs are missing."""
    rows = await connection.fetch(SELECT_HOURLY_RUNS, sorted(set(project_ids)), span.since, span.until)
    return {(row["project_id"], row["bucket"]): row["runs"] for row in rows}


async def select_last_hour(connection: Connection, project_ids: Iterable[str], span: TimeSpan) -> dict[str, Totals]:
    """Read the sums of these projects over some quarters of an hour."""
    totals_of = totals_reader(MEASURES)
    rows = await connection.fetch(SELECT_LAST_HOUR, sorted(set(project_ids)), span.since, span.until)
    return {project_id: totals_of(values) for project_id, *values in rows}

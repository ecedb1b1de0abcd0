"""SQL of alert rules: the rules, those that alerted lately, and the sums of projects in the last hour."""

from collections.abc import Iterable
from datetime import datetime

from runtally.alerts.recovery_queries import IS_OVER
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
  SELECT project_id, kind, threshold, of_unusual, min_runs
    FROM alert_rules AS rules
   WHERE ($1::text IS NULL OR project_id = $1)
     AND NOT EXISTS (SELECT
                       FROM alerts
                      WHERE alerts.project_id = rules.project_id
                        AND alerts.kind = rules.kind
                        AND alerts.created_at > $2
                        AND NOT {IS_OVER})
ORDER BY project_id, kind
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


async def select_rules(connection: Connection, quiet_since: datetime) -> tuple[Rule, ...]:
    """Read the rules of all projects, but not those that alerted since then and whose alert is not known to be over."""
    rows = await connection.fetch(SELECT_RULES, None, quiet_since)
    return tuple(
        Rule(row["project_id"], AlertKind(row["kind"]), row["threshold"], row["of_unusual"], row["min_runs"])
        for row in rows
        if row["kind"] in set(RULE_KINDS)
    )


async def select_last_hour(connection: Connection, project_ids: Iterable[str], span: TimeSpan) -> dict[str, Totals]:
    """Read the sums of these projects over some quarters of an hour."""
    totals_of = totals_reader(MEASURES)
    rows = await connection.fetch(SELECT_LAST_HOUR, sorted(set(project_ids)), span.since, span.until)
    return {project_id: totals_of(values) for project_id, *values in rows}

"""SQL of what charts of a project mark: its notes, and when the values of a tracked key were first seen."""

from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.models.dimension import Detail
from runtally.usage.sums.values import entries_of, keys_of
from runtally.usage.timeline import TimeSpan

MAX_VALUES_A_DAY = 200
"""A key with more values on any day has no first ones: it does not name what is put to use one after the other."""
NEW_AFTER_DAYS = 28
"""A value is new when it was not seen in this number of days before."""
# Out of the sums by day and hour, and of what waits to be added.
SELECT_FIRST_SEEN = f"""
WITH key AS (
  SELECT id, complete_since FROM ({keys_of("SELECT $1::text AS project_id", "('tracked')")}) AS keys WHERE key = $2
),
earliest AS (
  SELECT date_trunc('day', $3::timestamptz, 'UTC') - {NEW_AFTER_DAYS} * interval '1 day' AS since
),
blocks AS MATERIALIZED (
  SELECT key_id, day, dimension_values
    FROM dimension_sums
   WHERE project_id = $1
     AND key_id = (SELECT id FROM key)
     AND detail = '{Detail.DAY}'
     AND day >= (SELECT (since AT TIME ZONE 'UTC')::date FROM earliest)
     AND day <= ($4::timestamptz AT TIME ZONE 'UTC')::date
),
waiting AS (
  SELECT *
    FROM dimension_deltas
   WHERE project_id = $1 AND (SELECT id FROM key) = ANY (key_ids)
),
waiting_values AS MATERIALIZED (
  SELECT value, ((timestamptz 'epoch' + hours[number] * interval '1 hour') AT TIME ZONE 'UTC')::date AS day,
         min(timestamptz 'epoch' + hours[number] * interval '1 hour') AS at
    FROM ({entries_of("waiting", "project_id, id, hours, runs", "{key_id} = (SELECT id FROM key)")}) AS entries
   WHERE runs[number] > 0
     AND timestamptz 'epoch' + hours[number] * interval '1 hour' >= (SELECT since FROM earliest)
GROUP BY value, 2
),
-- Days that say nothing of what is new: those with too many values, and those whose runs the sums lack.
full_days AS MATERIALIZED (
  SELECT complete_since AS day FROM key WHERE complete_since > (SELECT (since AT TIME ZONE 'UTC')::date FROM earliest)
   UNION ALL
  SELECT day FROM blocks WHERE cardinality(dimension_values) > {MAX_VALUES_A_DAY}
   UNION ALL
  SELECT day FROM waiting_values GROUP BY day HAVING count(*) > {MAX_VALUES_A_DAY}
),
first_days AS MATERIALIZED (
  SELECT key_id, value, min(day) AS day
    FROM blocks CROSS JOIN LATERAL unnest(dimension_values) AS each (value)
   WHERE value <> ''
     AND NOT EXISTS (SELECT FROM full_days)
GROUP BY key_id, value
),
stored_values AS (
  SELECT first_days.value, day::timestamp AT TIME ZONE 'UTC' + coalesce(min(hour), 0) * interval '1 hour' AS at
    FROM first_days
         LEFT JOIN (SELECT key_id, day, value, hour
                      FROM dimension_sums CROSS JOIN LATERAL unnest(dimension_values, hours) AS each (value, hour)
                     WHERE project_id = $1
                       AND key_id = (SELECT id FROM key)
                       AND detail = '{Detail.HOUR}'
                       AND day IN (SELECT day
                                     FROM first_days
                                    WHERE day >= ($3::timestamptz AT TIME ZONE 'UTC')::date)) AS hours USING (key_id, day, value)
GROUP BY first_days.value, day
),
seen AS (
  SELECT value, min(at) AS at
    FROM (SELECT * FROM stored_values UNION ALL SELECT value, at FROM waiting_values) AS each
   WHERE NOT EXISTS (SELECT FROM full_days)
GROUP BY value
)
  SELECT value, at
    FROM seen
   WHERE at >= date_trunc('hour', $3::timestamptz, 'UTC') AND at < $4 AND at > (SELECT min(at) FROM seen)
ORDER BY at, value
"""


class FirstSeen(NamedTuple):
    """A value, and the hour in which it was first seen; of hours that are no longer kept, the day."""

    value: str
    at: datetime


async def select_first_seen(connection: Connection, project_id: str, key: str, span: TimeSpan) -> list[FirstSeen]:
    """Read which values of a tracked key are new in a time; those that the first runs of all had are not."""
    return [FirstSeen(*row) for row in await connection.fetch(SELECT_FIRST_SEEN, project_id, key, *span)]


MARKED = 100
SELECT_NOTES = f"""
  SELECT at, text
    FROM notes
   WHERE project_id = $1
     AND at >= $2
     AND at < $3
     AND ($4::text IS NULL OR tag IS NULL OR tag = $4)
ORDER BY at DESC
   LIMIT {MARKED}
"""


class MarkedNote(NamedTuple):
    """The moment and the words of a note."""

    at: datetime
    text: str


async def select_notes(connection: Connection, project_id: str, span: TimeSpan, tag: str | None) -> list[MarkedNote]:
    """Read the latest notes of a time; where runs with one tag are shown, without those about other tags."""
    return [MarkedNote(*row) for row in await connection.fetch(SELECT_NOTES, project_id, *span, tag)]

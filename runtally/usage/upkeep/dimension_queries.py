"""SQL that maintains the sums by dimension: merge, verify, repair, fill and delete."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from runtally.db.database import LONG_STATEMENT_SECONDS, Connection
from runtally.models.dimension import DIMENSION_MEASURES, EVERY_PROJECT, Detail
from runtally.usage.dimensions import COUNTED_MODEL, COUNTED_PROVIDER
from runtally.usage.sketch import BINNED, LATENCY
from runtally.usage.store import HOUR
from runtally.usage.sums.blocks import (
    ARRAYS,
    IS_SOMETHING,
    MEASURE_NAMES,
    SLICE_NAMES,
    SUMS,
    UNNESTED,
    add_latencies,
    add_sums,
    oldest_hours,
    summed_ctes,
    waiting_ctes,
)
from runtally.usage.sums.tables import TOTALS, first_day
from runtally.usage.sums.values import KEY_IDS, VALUES, entries_of, keys_of, slots_of
from runtally.usage.upkeep.chunk_queries import CHANGED, SET_UP, ScanChunk, first_of

# Postgres takes the rows of common table expressions to be few, and would look each of thousands up in thousands of others.
# Groups are nearly as many as rows, and a hash table of a dozen sums for each takes longer to fill than the rows to sort.
SET_UP_MANY = f"{SET_UP}; SET LOCAL enable_nestloop = off; SET LOCAL enable_hashagg = off"

# One at a time changes the blocks: which values have sums of their own depends on those that have.
_LOCK = "hashtext('runtally merging dimensions')"
TRY_LOCK = f"SELECT pg_try_advisory_xact_lock({_LOCK})"
LOCK = f"SELECT pg_advisory_xact_lock({_LOCK})"


def merging(which: str, *, now: str) -> str:
    """A statement that merges `dimension_deltas` into the blocks and returns the number of runs; `which` is a condition on `waiting`."""
    return f"""
WITH taken AS MATERIALIZED (
     DELETE FROM dimension_deltas
           USING (SELECT project_id, id FROM dimension_deltas AS waiting WHERE {which}) AS due
           WHERE (dimension_deltas.project_id, dimension_deltas.id) = (due.project_id, due.id)
       RETURNING dimension_deltas.*
),
counted_keys AS MATERIALIZED (
  {keys_of("SELECT DISTINCT project_id FROM taken")}
),
{waiting_ctes("taken", "counted_keys")},
{summed_ctes("waiting_entries", now=now)},
added AS ({add_sums("dimension_slices")}
),
added_latencies AS ({add_latencies("dimension_bins")}
)
SELECT coalesce(sum(size), 0)
  FROM taken
"""


# What came first of the projects of which much waits, or long, or nothing more arrives: the more is added at once, the less
# often a block is written anew. The projects of which least waits go on waiting while that is not much altogether, because
# each reader of all projects adds it up. Mostly nothing is due, and to plan the merge takes ten times as long as to find that.
# Parameters: now, how many runs at once; how many make a project due, and how many seconds one may wait; from how many on a
# project is due where no more came for so many seconds.
SELECT_DUE = """
SELECT id
  FROM (SELECT id, sum(size) OVER (ORDER BY id) - size AS before
          FROM dimension_deltas
         WHERE project_id IN (SELECT project_id
                                FROM (SELECT project_id, sum(size) AS size, min(queued_at) AS first, max(queued_at) AS last,
                                             sum(sum(size)) OVER (ORDER BY sum(size), project_id) AS up_to
                                        FROM dimension_deltas
                                    GROUP BY project_id) AS queue
                               WHERE size >= $3
                                  OR up_to >= 2 * $3
                                  OR first < $1::timestamptz - make_interval(secs => $4)
                                  OR size >= $5 AND last < $1::timestamptz - make_interval(secs => $6))) AS each
 WHERE before < $2
"""
MERGE_DUE = merging("id = ANY ($2::bigint[])", now="$1::timestamptz")
MERGE_PROJECT = merging("project_id = $1", now="now()")


# Parameters of all: projects, start and end of whole days, now, and the keys in question.
_OF_CHUNK = "project_id = ANY ($1::text[]) AND {moment} >= $2 AND {moment} < $3"
_DAYS = "day >= ($2 AT TIME ZONE 'UTC')::date AND day < ($3 AT TIME ZONE 'UTC')::date"
_HOURS = "hour >= date_part('epoch', $2) / 3600 AND hour < date_part('epoch', $3) / 3600"
_OF_BLOCKS = f"(project_id, key_id) IN (SELECT project_id, id FROM counted_keys) AND {_DAYS}"
_MEASURES_OF_RUN = ", ".join(f"{measure.of_run()} AS {measure.name}" for measure in DIMENSION_MEASURES)
_NEGATED = ", ".join(f"-{measure.name}" for measure in DIMENSION_MEASURES)
_NEGATED_SLICE = ", ".join(f"-slice.{measure.name}" for measure in DIMENSION_MEASURES)
_SLICE_KEY = f"project_id, key_id, detail, day, {SLICE_NAMES}"
# What should be: the runs, without those that wait. Projects whose runs were dropped keep the sums that they have.
_SHOULD_BE = f"""
WITH counted_keys AS MATERIALIZED (
  SELECT *
    FROM ({keys_of("SELECT unnest($1::text[]) AS project_id")}) AS keys
   WHERE id = ANY ($5::bigint[])
     AND project_id NOT IN (SELECT id FROM projects WHERE dropped_before > $2)
),
slots AS MATERIALIZED (
  {slots_of("SELECT * FROM counted_keys")}
),
valued AS MATERIALIZED (
  SELECT project_id, {KEY_IDS} AS key_ids, {VALUES} AS dimension_values, {HOUR} AS hour,
         {COUNTED_PROVIDER} AS provider, {COUNTED_MODEL} AS model,
         {BINNED} AS latency, {_MEASURES_OF_RUN}
    FROM (SELECT *, {LATENCY} AS latency FROM runs WHERE {_OF_CHUNK.format(moment="occurred_at")}) AS runs
         JOIN slots USING (project_id)
),
waiting AS MATERIALIZED (
  SELECT * FROM dimension_deltas WHERE project_id IN (SELECT project_id FROM counted_keys)
),
{waiting_ctes("waiting", "counted_keys")},
entries AS MATERIALIZED (
  SELECT project_id, key_id, hour, value, provider, model, latency, {MEASURE_NAMES}
    FROM ({entries_of("valued", f"project_id, hour, provider, model, latency, {MEASURE_NAMES}")}) AS sent
   UNION ALL
  SELECT project_id, key_id, hour, value, provider, model, latency, {_NEGATED}
    FROM waiting_entries
   WHERE {_HOURS}
),
{summed_ctes("entries", now="$4::timestamptz")},
difference AS MATERIALIZED ("""
_SUMS_DIFFER = f"""{_SHOULD_BE}
  SELECT {_SLICE_KEY}, {SUMS}
    FROM (SELECT * FROM dimension_slices
           UNION ALL
          SELECT project_id, key_id, detail, day, {SLICE_NAMES}, {_NEGATED_SLICE}
            FROM dimension_sums CROSS JOIN LATERAL unnest({ARRAYS}) AS slice ({UNNESTED})
           WHERE {_OF_BLOCKS}
             AND (detail <> '{Detail.HOUR}' OR day >= {oldest_hours("$4::timestamptz")})) AS both_sides
GROUP BY {_SLICE_KEY}
  HAVING {IS_SOMETHING}
)"""
_LATENCIES_DIFFER = f"""{_SHOULD_BE}
  SELECT project_id, key_id, day, value, latency, sum(n)::bigint AS n
    FROM (SELECT * FROM dimension_bins
           UNION ALL
          SELECT project_id, key_id, day, value, latency, -n
            FROM dimension_latencies
                 CROSS JOIN LATERAL unnest(dimension_values, latencies, counts) AS bin (value, latency, n)
           WHERE {_OF_BLOCKS}) AS both_sides
GROUP BY 1, 2, 3, 4, 5
  HAVING sum(n) <> 0
)"""
_PLACE = "{grain} AS grain, (day + make_interval(hours => {hour})) AT TIME ZONE 'UTC' AS bucket"
_VALUE = "(SELECT key FROM tracked_keys WHERE id = key_id) || ' ' || coalesce(value, '(other)')"
SELECT_SUM_DIFFERENCES = _SUMS_DIFFER + first_of(
    f"{_VALUE} || ' ' || model",
    "runs",
    "cost_usd",
    place=_PLACE.format(grain=f"CASE detail WHEN '{Detail.HOUR}' THEN 60 ELSE 1440 END", hour="hour"),
    more=", key_id, value",
)
SELECT_LATENCY_DIFFERENCES = _LATENCIES_DIFFER + first_of(
    f"{_VALUE} || ' latencies'", "n", place=_PLACE.format(grain=1440, hour=0), more=", key_id, value"
)
ADD_SUMS = f"""{_SUMS_DIFFER},
changed AS ({add_sums("difference")}
       RETURNING project_id{CHANGED}"""
ADD_LATENCIES = f"""{_LATENCIES_DIFFER},
changed AS ({add_latencies("difference")}
       RETURNING project_id{CHANGED}"""

SELECT_TRACKED_IDS = "SELECT id FROM tracked_keys WHERE state = 'tracked'"
SELECT_IS_MISSING = """
SELECT NOT EXISTS (SELECT FROM dimension_sums)
       AND NOT EXISTS (SELECT FROM dimension_deltas)
       AND EXISTS (SELECT FROM runs WHERE metadata IS NOT NULL OR user_id IS NOT NULL OR session_id IS NOT NULL OR tags IS NOT NULL)
"""
DELETE_EXPIRED = f"""
DELETE FROM dimension_sums
      WHERE (project_id, key_id, detail, day) IN (SELECT project_id, key_id, detail, day
                                                   FROM dimension_sums
                                                  WHERE detail = '{Detail.HOUR}' AND day < {oldest_hours("$1::timestamptz")}
                                                  LIMIT $2)
"""

# The key that waits longest for its past to be counted, or for its sums to be deleted; one process sees to it.
SELECT_CHANGING_KEY = """
  SELECT project_id, key, id, state, filled_until
    FROM tracked_keys
   WHERE state IN ('filling', 'dropping')
ORDER BY changed_at, project_id, key
   LIMIT 1
     FOR UPDATE SKIP LOCKED
"""
# From now on each statement that begins counts the key. One that began before may not, and its runs are not all there yet.
BEGIN_FILLING = f"""
UPDATE tracked_keys
   SET filled_until = coalesce(({first_day("$1")}) AT TIME ZONE 'UTC', CURRENT_DATE)::date,
       changed_at = clock_timestamp()
 WHERE project_id = $1 AND key = $2
"""
SELECT_IS_ANY_OLDER = """
SELECT EXISTS (SELECT
                 FROM pg_stat_activity
                      JOIN tracked_keys ON project_id = $1 AND key = $2
                WHERE datname = current_database()
                  AND pid <> pg_backend_pid()
                  AND backend_xmin IS NOT NULL
                  AND xact_start <= changed_at)
"""
SELECT_DAYS_TO_FILL = f"""
  SELECT (bucket AT TIME ZONE 'UTC')::date, sum(runs)::bigint AS runs
    FROM {TOTALS.rows_of_projects} AS held
   WHERE project_id = $1
     AND grain = 1440
     AND bucket >= $2::date AT TIME ZONE 'UTC'
GROUP BY bucket
  HAVING sum(runs) > 0
ORDER BY bucket
   LIMIT 400
"""
# Nothing is left to count of days before. Where some of them were filled while their runs were there, these are given up.
BEGIN_WHERE_RUNS_ARE = """
UPDATE tracked_keys
   SET filled_until = kept.day, complete_since = kept.day
  FROM (SELECT (dropped_before AT TIME ZONE 'UTC')::date AS day FROM projects WHERE id = $1) AS kept
 WHERE project_id = $1 AND key = $2 AND filled_until < kept.day
RETURNING filled_until
"""
# Unless runs of these days were announced as gone before the last statement looked: it left them out then.
SET_FILLED = """
UPDATE tracked_keys
   SET filled_until = $4
 WHERE project_id = $1
   AND key = $2
   AND NOT EXISTS (SELECT FROM projects WHERE id = $1 AND dropped_before > $3)
"""
SET_TRACKED = """
UPDATE tracked_keys SET state = 'tracked', changed_at = clock_timestamp() WHERE project_id = $1 AND key = $2
"""
_DROP = """
DELETE FROM {table}
      WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE project_id = $1 AND key_id = $2 LIMIT $3))
"""
DROP_SUMS, DROP_LATENCIES = (_DROP.format(table=table) for table in ("dimension_sums", "dimension_latencies"))
# What each other project tracks is named as not tracked here; any other key is forgotten.
SET_UNTRACKED = f"""
UPDATE tracked_keys
   SET state = 'untracked', changed_at = clock_timestamp()
 WHERE project_id = $1
   AND key = $2
   AND EXISTS (SELECT FROM tracked_keys AS of_all WHERE of_all.project_id = '{EVERY_PROJECT}' AND of_all.key = $2)
"""
DELETE_UNTRACKED = "DELETE FROM tracked_keys WHERE project_id = $1 AND key = $2 AND state = 'dropping'"


class ChangingKey(NamedTuple):
    """A key that is being filled for the past, or whose sums are being deleted."""

    project_id: str
    key: str
    id: int
    state: str
    filled_until: date | None


async def select_tracked_ids(connection: Connection) -> Sequence[int]:
    """Read the numbers of all keys with complete sums."""
    return [row["id"] for row in await connection.fetch(SELECT_TRACKED_IDS)]


async def add_differences(
    connection: Connection, chunk: ScanChunk, now: datetime, key_ids: Sequence[int]
) -> Counter[str]:
    """Correct the sums of these keys, and return the number of corrections by project. Needs the `lock`."""
    await connection.execute(SET_UP_MANY)
    changed: Counter[str] = Counter()
    for statement in (ADD_SUMS, ADD_LATENCIES):
        found = await connection.fetch(statement, *chunk.values, now, key_ids, timeout=LONG_STATEMENT_SECONDS)
        for project_id, rows in found:
            changed[project_id] += rows
    return changed


async def select_differences(connection: Connection, chunk: ScanChunk, now: datetime) -> Sequence[Iterable[Any]]:
    """Read the first difference in each project between sums of complete keys and runs: project, and the fields of a `Difference`."""
    key_ids = await select_tracked_ids(connection)
    await connection.execute(SET_UP_MANY)
    return [
        row
        for statement in (SELECT_SUM_DIFFERENCES, SELECT_LATENCY_DIFFERENCES)
        for row in await connection.fetch(statement, *chunk.values, now, key_ids)
    ]

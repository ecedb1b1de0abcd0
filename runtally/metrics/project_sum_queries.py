"""SQL of what each project came to. With ids, of these alone; with None in their place, of all."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from runtally.db.database import Connection
from runtally.metrics.only import Only
from runtally.metrics.parts import seconds
from runtally.metrics.project_queries import OF_IDS, Ids
from runtally.metrics.report import Sums
from runtally.metrics.window import Part, Window
from runtally.models.rollup import EVERYTHING, GRAINS, TOTAL_GRAINS
from runtally.rollups.rolling import sums

_SUMMED = """sum(runs)::bigint AS runs,
                     sum(errors + timeouts)::bigint AS failed,
                     sum(unpriced)::bigint AS unpriced,
                     sum(cost_usd) AS cost_usd"""
# Where only some runs count: their model, and their provider.
_OF_MODELS = "({model}::text IS NULL OR model = {model}) AND ({provider}::text IS NULL OR provider = {provider})"


def sums_sql(parts: int, *, of_models: bool) -> str:
    """Project by project, because that is how the rows lie: joined with all of them at once, the whole table would be read.

    Parameters: ids; grain, start and end of each part; with some models alone, these.
    """
    return f"""
  SELECT projects.id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT {_SUMMED}
                FROM ({_stored("runs, errors, timeouts, unpriced, cost_usd", 2, parts, of_models=of_models)}) AS stored) AS held
   WHERE {OF_IDS}
     AND held.runs > 0
"""


def _stored(columns: str, first: int, parts: int, *, of_models: bool) -> str:
    """Each part by itself: joined with a list of them, Postgres does not see how few rows of a model are in one."""
    table = "rollups" if of_models else "rollup_totals"
    after = first + 3 * parts
    more = f" AND {_OF_MODELS.format(model=f'${after}', provider=f'${after + 1}')}" if of_models else ""
    return "\n                      UNION ALL ".join(
        f"""SELECT {columns}
                        FROM {table}
                       WHERE project_id = projects.id
                         AND grain = ${number}::smallint
                         AND bucket >= ${number + 1}::timestamptz
                         AND bucket < ${number + 2}::timestamptz{more}"""
        for number in range(first, after, 3)
    )


# Of days: an index leads to those of all projects, where each has but one row a day.
SELECT_SUMS_OF_DAYS = f"""
  SELECT project_id,
         {_SUMMED}
    FROM rollup_totals
   WHERE grain = {TOTAL_GRAINS[-1].minutes}
     AND bucket >= $1
     AND bucket < $2
     AND project_id <> '{EVERYTHING}'
GROUP BY 1
  HAVING sum(runs) > 0
"""

# Of one day: that is one row of each already.
SELECT_SUMS_OF_DAY = f"""
  SELECT project_id,
         runs,
         errors + timeouts AS failed,
         unpriced,
         cost_usd
    FROM rollup_totals
   WHERE grain = {TOTAL_GRAINS[-1].minutes}
     AND bucket = $1
     AND project_id <> '{EVERYTHING}'
     AND runs > 0
"""

SELECT_SUMS_OF_RUNS = f"""
  SELECT project_id,
         runs,
         errors + timeouts AS failed,
         unpriced,
         cost_usd
    FROM (SELECT project_id,
                 {sums(only=("runs", "errors", "timeouts", "unpriced", "cost_usd"))}
            FROM projects
                 JOIN runs ON runs.project_id = projects.id
           WHERE {OF_IDS}
             AND occurred_at >= $2
             AND occurred_at < $3
             AND {_OF_MODELS.format(model="$4", provider="$5")}
        GROUP BY 1) AS found
"""


def costs_sql(parts: int, *, of_models: bool) -> str:
    """Parameters: ids; start and end of what only the runs tell; the window's start, and the seconds of its buckets; as above."""
    after = 6 + 3 * parts
    more = f" AND {_OF_MODELS.format(model=f'${after}', provider=f'${after + 1}')}" if of_models else ""
    number = "floor(date_part('epoch', {moment} - $4::timestamptz) / $5::int)::int AS number"
    stored = _stored(f"{number.format(moment='bucket')}, cost_usd", 6, parts, of_models=of_models)
    return f"""
  SELECT projects.id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT array_agg(number) AS numbers,
                     array_agg(cost_usd::float8) AS costs
                FROM (SELECT {number.format(moment="occurred_at")}, coalesce(cost_usd, 0) AS cost_usd
                        FROM runs
                       WHERE $2::timestamptz < $3::timestamptz
                         AND project_id = projects.id
                         AND occurred_at >= $2
                         AND occurred_at < $3{more}
                   UNION ALL {stored}) AS buckets) AS held
   WHERE {OF_IDS}
     AND held.numbers IS NOT NULL
"""


# Whatever is done to a run changes the row of its day for all projects together, and every change of a row has a number of
# its own: while those of some days stay the same, so do the sums of each project.
# And when the last of the shortest buckets that has runs began.
SELECT_DAYS = f"""
SELECT bucket,
       xmin::text AS version
  FROM rollup_totals
 WHERE project_id = '{EVERYTHING}'
   AND grain = {TOTAL_GRAINS[-1].minutes}
   AND bucket > $1::timestamptz - interval '{TOTAL_GRAINS[-1].minutes} minutes'
   AND bucket < $2
 UNION ALL
SELECT max(bucket),
       NULL
  FROM rollup_totals
 WHERE project_id = '{EVERYTHING}'
   AND grain = {GRAINS[0].minutes}
   AND runs > 0
"""


async def select_sums(connection: Connection, stored: Sequence[Part], ids: Ids, only: Only) -> dict[str, Sums]:
    """Over these stored buckets, of all runs or those of a model or a provider; without the projects that have none."""
    if ids is None and not only and [part.grain for part in stored] == [TOTAL_GRAINS[-1]]:
        [days] = stored
        if days.until - days.since == days.grain.length:
            rows = await connection.fetch(SELECT_SUMS_OF_DAY, days.since)
        else:
            rows = await connection.fetch(SELECT_SUMS_OF_DAYS, days.since, days.until)
    else:
        sql = sums_sql(len(stored), of_models=bool(only))
        rows = await connection.fetch(sql, ids, *_values(stored), *_models(only))
    return {id_: Sums(*found) for id_, *found in rows}


async def select_sums_of_runs(
    connection: Connection, since: datetime, until: datetime, ids: Ids, only: Only
) -> dict[str, Sums]:
    """The same of the time between stored buckets."""
    rows = await connection.fetch(SELECT_SUMS_OF_RUNS, ids, since, until, only.model, only.provider)
    return {id_: Sums(*found) for id_, *found in rows}


async def select_costs(connection: Connection, window: Window, ids: Ids, only: Only) -> dict[str, dict[int, float]]:
    """To be drawn: by the bucket's number, where there are runs."""
    stored, rest_since = window.stored_parts(GRAINS if only else TOTAL_GRAINS)
    if not stored:
        # Of no length.
        stored = (Part(GRAINS[0], window.start, window.start),)
    sql = costs_sql(len(stored), of_models=bool(only))
    since = (rest_since, window.until, window.start, seconds(window))
    rows = await connection.fetch(sql, ids, *since, *_values(stored), *_models(only))
    return {id_: _added_up(numbers, costs) for id_, numbers, costs in rows}


def _values(stored: Sequence[Part]) -> Iterator[object]:
    for part in stored:
        yield from (part.grain.minutes, part.since, part.until)


def _models(only: Only) -> tuple[str | None, ...]:
    return (only.model, only.provider) if only else ()


def _added_up(numbers: list[int], costs: list[float]) -> dict[int, float]:
    added = dict(zip(numbers, costs, strict=True))
    if len(added) < len(numbers):
        # A bucket is in several stored ones, or one of these and some runs.
        added = dict.fromkeys(added, 0.0)
        for number, cost in zip(numbers, costs, strict=True):
            added[number] += cost
    return added


async def select_days(
    connection: Connection, since: datetime, until: datetime
) -> tuple[Mapping[datetime, str], datetime | None]:
    """A text for each day of this time that has runs, which differs whenever one of them has come, changed or gone.

    And the last of the shortest buckets that has runs of any project.
    """
    rows = await connection.fetch(SELECT_DAYS, since, until)
    [last] = [bucket for bucket, version in rows if version is None]
    return dict(sorted((day, version) for day, version in rows if version is not None)), last

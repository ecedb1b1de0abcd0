"""SQL of the sums of each project: of one, or, for None, of all."""

from collections.abc import Sequence

from runtally.db.database import Connection
from runtally.models.measures import columns_over_runs, columns_over_sums, measures_named
from runtally.models.rollup import ALL_PROJECTS, GRAINS, TOTAL_GRAINS
from runtally.usage.conditions import Conditions, of_models, runs_during
from runtally.usage.filter import RunFilter
from runtally.usage.plan import Question
from runtally.usage.summary import Summary
from runtally.usage.sums.tables import SLICES, TOTALS
from runtally.usage.timeline import BucketRange, Timeline, TimeSpan
from runtally.usage.totals import Totals, group_sum, totals_reader
from runtally.usage.window import Window

BY_PROJECT = ("runs", "errors", "timeouts", "unpriced", "cost_usd")
"""The measures that a row of the list of projects shows."""
_SHOWN = measures_named(*BY_PROJECT)
_NAMES = ", ".join(measure.name for measure in _SHOWN)
_OF_PROJECT = "($1::text IS NULL OR projects.id = $1)"

# An index leads to the days of all projects, because each project has but one row a day.
SELECT_SUMS_OF_DAYS = f"""
  SELECT project_id,
         {columns_over_sums(_SHOWN)}
    FROM {TOTALS.rows_of_projects} AS held
   WHERE grain = {TOTAL_GRAINS[-1].minutes}
     AND bucket >= $1
     AND bucket < $2
     AND project_id <> '{ALL_PROJECTS.key}'
GROUP BY 1
  HAVING sum(runs) > 0
"""


async def select_sums(connection: Connection, question: Question, span: TimeSpan) -> Summary:
    """Read the sums of each project that has runs in a span."""
    run_filter, found = question.filter, list[tuple[str, Totals]]()
    grains = GRAINS if run_filter.is_narrowed else TOTAL_GRAINS
    stored, of_runs = Timeline.whole(span, question.timeline.now).cover(grains)
    totals_of = totals_reader(BY_PROJECT)
    days = [one for one in stored if one.grain == TOTAL_GRAINS[-1] and run_filter.project_id is None]
    others = [one for one in stored if one not in days]
    for day in days:
        rows = await connection.fetch(SELECT_SUMS_OF_DAYS, day.since, day.until)
        found += ((id_, totals_of(values)) for id_, *values in rows)
    if others:
        conditions = Conditions(values=[run_filter.project_id])
        rows = await connection.fetch(_sums_sql(conditions, others, run_filter), *conditions.values)
        found += ((id_, totals_of(values)) for id_, *values in rows)
    for rest in of_runs:
        conditions = Conditions()
        sql = f"""
  SELECT project_id,
         {columns_over_runs(_SHOWN)}
    FROM {runs_during(conditions, run_filter, rest)}
GROUP BY 1"""
        rows = await connection.fetch(sql, *conditions.values)
        found += ((id_, totals_of(values)) for id_, *values in rows)
    groups = group_sum(found)
    return Summary(question.timeline, question.by, groups={(id_,): group for id_, group in groups.items()})


def _sums_sql(conditions: Conditions, stored: Sequence[BucketRange], run_filter: RunFilter) -> str:
    """SQL that reads project by project, in the order of the rows, so that it does not scan the whole table."""
    return f"""
  SELECT projects.id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT {columns_over_sums(_SHOWN)}
                FROM ({_stored(conditions, _NAMES, stored, run_filter)}) AS stored) AS held
   WHERE {_OF_PROJECT}
     AND held.runs > 0
"""


def _stored(conditions: Conditions, columns: str, stored: Sequence[BucketRange], run_filter: RunFilter) -> str:
    """SQL of each range separately: joined with a list of ranges, Postgres overestimates the rows of a model in each."""
    rows = (SLICES if run_filter.is_narrowed else TOTALS).rows_of_projects
    which = of_models(conditions, run_filter)
    return "\n                      UNION ALL ".join(
        f"""SELECT {columns}
                        FROM {rows} AS held
                       WHERE project_id = projects.id
                         AND grain = {one.grain.minutes}
                         AND bucket >= {conditions.value(one.since, "timestamptz")}
                         AND bucket < {conditions.value(one.until, "timestamptz")}
                         AND {which}"""
        for one in stored
    )


async def select_costs(
    connection: Connection, window: Window, run_filter: RunFilter, ids: Sequence[str]
) -> dict[str, dict[int, float]]:
    """Read the cost of these projects in each bucket with runs, by the bucket's number."""
    stored, of_runs = window.cover(GRAINS if run_filter.is_narrowed else TOTAL_GRAINS)
    found = Conditions()
    start, wanted = found.value(window.start, "timestamptz"), found.value(list(ids), "text[]")
    number = f"floor(date_part('epoch', {{moment}} - {start}) / {int(window.interval.total_seconds())})::int AS number"
    parts = []
    if stored:
        parts.append(_stored(found, f"{number.format(moment='bucket')}, cost_usd", stored, run_filter))
    parts += [
        f"""SELECT {number.format(moment="occurred_at")}, coalesce(cost_usd, 0) AS cost_usd
                        FROM runs
                       WHERE project_id = projects.id
                         AND occurred_at >= {found.value(rest.since, "timestamptz")}
                         AND occurred_at < {found.value(rest.until, "timestamptz")}
                         AND {of_models(found, run_filter)}"""
        for rest in of_runs
    ]
    if not parts:
        return {}
    sql = f"""
  SELECT projects.id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT array_agg(number) AS numbers,
                     array_agg(cost_usd::float8) AS costs
                FROM ({" UNION ALL ".join(parts)}) AS buckets) AS held
   WHERE projects.id = ANY ({wanted})
     AND held.numbers IS NOT NULL
"""
    return {id_: _added_up(numbers, costs) for id_, numbers, costs in await connection.fetch(sql, *found.values)}


def _added_up(numbers: Sequence[int], costs: Sequence[float]) -> dict[int, float]:
    added = dict(zip(numbers, costs, strict=True))
    # A bucket may be in several stored ones, or one of these and some runs.
    return added if len(added) == len(numbers) else group_sum(zip(numbers, costs, strict=True))

"""SQL of each project beside the others."""

from runtally.db.database import Connection
from runtally.metrics.only import Only
from runtally.metrics.parts import (
    NUMBER,
    REST,
    STORED,
    TALLIED,
    TALLIED_COLUMNS,
    TALLY,
    parameters,
    parts,
    tally,
)
from runtally.metrics.report import KnownProject, ProjectTally, Spending
from runtally.metrics.window import Cover, Window
from runtally.models.rollup import EVERYTHING, GRAINS, TOTAL_GRAINS, RollupScope
from runtally.rollups.rolling import sums

# Project by project, because that is how the rows lie: joined with all of them at once, the whole table would be read.
SELECT_TALLIES = f"""
  SELECT projects.id AS project_id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT array_agg(number) AS numbers,
                     array_agg(cost_usd::float8) AS costs,
                     {TALLY}
                FROM (SELECT {NUMBER.format(moment="bucket")} AS number, {TALLIED_COLUMNS}
                        FROM {STORED.format(table="rollup_totals", project="projects.id", parts=parts(2))}
                   UNION ALL
                      SELECT {NUMBER.format(moment="occurred_at")}, {sums(only=TALLIED)}
                        FROM runs
                       WHERE $5::timestamptz < $6::timestamptz
                         AND project_id = projects.id
                         AND occurred_at >= $5
                         AND occurred_at < $6
                    GROUP BY 1) AS buckets) AS held
   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
     AND held.runs > 0
"""  # noqa: S608  # Names and expressions of the declaration, here and below.

# Two parameters more: the only model, and the only provider. These are in no order of the table, so it is read at once.
_OF_MODELS = "($9::text IS NULL OR model = $9) AND ($10::text IS NULL OR provider = $10)"
SELECT_TALLIES_OF_MODELS = f"""
  SELECT project_id,
         array_agg(number) AS numbers,
         array_agg(cost_usd::float8) AS costs,
         {TALLY}
    FROM (SELECT project_id, number, {", ".join(f"sum({name}) AS {name}" for name in TALLIED)}
            FROM (SELECT projects.id AS project_id, {NUMBER.format(moment="bucket")} AS number, {TALLIED_COLUMNS}
                    FROM projects
                         CROSS JOIN {STORED.format(table="rollups", project="projects.id", parts=parts(2))}
                   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
                     AND {_OF_MODELS}
               UNION ALL
                  SELECT project_id, {NUMBER.format(moment="occurred_at")}, {sums(only=TALLIED)}
                    FROM {REST.format(since="$5")}
                     AND {_OF_MODELS}
                GROUP BY 1, 2) AS cells
        GROUP BY 1, 2) AS buckets
GROUP BY 1
"""  # noqa: S608

# What projects cost in three windows that end with a stored bucket. Parameters: the scope; the stored buckets that cover the
# windows, as arrays of these' numbers, grains, starts and ends.
_PARTS = """unnest($2::smallint[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])
                     AS parts (number, grain, since, until)
                JOIN {table}
                  ON {table}.project_id = projects.id
                 AND {table}.grain = parts.grain
                 AND {table}.bucket >= parts.since
                 AND {table}.bucket < parts.until"""
_OF_WINDOWS = ", ".join(f"coalesce(sum(cost_usd) FILTER (WHERE number = {number}), 0)" for number in range(3))
SELECT_SPENDING = f"""
  SELECT projects.id AS project_id,
         held.*
    FROM projects
         CROSS JOIN LATERAL (
              SELECT {_OF_WINDOWS}
                FROM {_PARTS.format(table="rollup_totals")}) AS held
   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
"""  # noqa: S608
SELECT_SPENDING_OF_MODELS = f"""
  SELECT projects.id AS project_id,
         {_OF_WINDOWS}
    FROM projects
         CROSS JOIN {_PARTS.format(table="rollups")}
   WHERE ($1 = '{EVERYTHING}' OR projects.id = $1)
     AND ($6::text IS NULL OR model = $6)
     AND ($7::text IS NULL OR provider = $7)
GROUP BY 1
"""  # noqa: S608

# First and last run are one short index look-up each for every project; there is no index over the time alone. Runs that were
# dropped are known by the bucket they were in.
_BUCKET = f"""(SELECT bucket
            FROM rollups
           WHERE project_id = projects.id
             AND grain = {GRAINS[-1].minutes}
        ORDER BY bucket {{way}}
           LIMIT 1)"""  # noqa: S608  # Constants of the declaration, here and below.
SELECT_PROJECTS = f"""
  SELECT projects.id,
         projects.name,
         projects.archived_at IS NOT NULL AS is_archived,
         CASE WHEN dropped_before IS NULL THEN first.occurred_at
              ELSE {_BUCKET.format(way="ASC")} END AS first_run_at,
         coalesce(last.occurred_at, {_BUCKET.format(way="DESC")}) AS last_run_at,
         projects.dropped_before
    FROM projects
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at
                             LIMIT 1) AS first ON TRUE
         LEFT JOIN LATERAL (SELECT occurred_at
                              FROM runs
                             WHERE project_id = projects.id
                          ORDER BY occurred_at DESC
                             LIMIT 1) AS last ON TRUE
   WHERE ($1::text IS NULL OR projects.id = $1)
ORDER BY projects.name, projects.id
"""  # noqa: S608


async def select_project_tallies(
    connection: Connection, window: Window, project_id: str | None, only: Only
) -> dict[str, ProjectTally]:
    """Of all runs, or of those of a model or a provider; without the projects that have none."""
    if only:
        values = parameters(window, project_id, window.stored_parts())
        rows = await connection.fetch(SELECT_TALLIES_OF_MODELS, *values, only.model, only.provider)
    else:
        values = parameters(window, project_id, window.stored_parts(TOTAL_GRAINS))
        rows = await connection.fetch(SELECT_TALLIES, *values)
    return {id_: ProjectTally(tally(*sums), _added_up(numbers, costs)) for id_, numbers, costs, *sums in rows}


async def select_spending(
    connection: Connection, windows: tuple[Window, Window, Window], project_id: str | None, only: Only
) -> dict[str, Spending]:
    """The cost of each project in these windows, which all end with a stored bucket."""
    key = RollupScope(project_id).key
    if only:
        parts = _numbered([window.fewest_parts() for window in windows])
        rows = await connection.fetch(SELECT_SPENDING_OF_MODELS, key, *parts, only.model, only.provider)
    else:
        parts = _numbered([window.fewest_parts(TOTAL_GRAINS) for window in windows])
        rows = await connection.fetch(SELECT_SPENDING, key, *parts)
    return {id_: Spending(*costs) for id_, *costs in rows}


def _added_up(numbers: list[int], costs: list[float]) -> dict[int, float]:
    added = dict(zip(numbers, costs, strict=True))
    if len(added) < len(numbers):
        # A bucket is in several stored ones, or one of these and some runs.
        added = dict.fromkeys(added, 0.0)
        for number, cost in zip(numbers, costs, strict=True):
            added[number] += cost
    return added


def _numbered(covers: list[Cover]) -> tuple[list[int], ...]:
    columns = zip(
        *(
            (number, part.grain.minutes, part.since, part.until)
            for number, (parts, _) in enumerate(covers)
            for part in parts
        ),
        strict=True,
    )
    return tuple(map(list, columns))


async def select_projects(connection: Connection, project_id: str | None) -> tuple[KnownProject, ...]:
    """All projects, or the one with this id, by name."""
    rows = await connection.fetch(SELECT_PROJECTS, project_id)
    return tuple(KnownProject(**row) for row in rows)

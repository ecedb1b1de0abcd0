"""The tables of sums: their keys, their measures and the lengths of their buckets."""

from collections.abc import Sequence
from dataclasses import dataclass

from runtally.models.measures import MEASURES, TOTAL_MEASURES, Measure
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS, TOTAL_GRAINS, Grain

BUCKET = ("project_id", "grain", "bucket")


@dataclass(frozen=True, slots=True)
class SumTable:
    """A table whose rows are sums over the runs of a bucket."""

    name: str
    names: tuple[str, ...]
    """Columns of runs whose values have rows of their own."""
    measures: tuple[Measure, ...]
    grains: tuple[Grain, ...]

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of its measures."""
        return tuple(measure.name for measure in self.measures)

    @property
    def key(self) -> tuple[str, ...]:
        return (*BUCKET, *self.names)

    @property
    def columns(self) -> str:
        return ", ".join((*self.key, *self.sums))

    @property
    def grain_rows(self) -> str:
        return grain_rows(self.grains)

    @property
    def rows(self) -> str:
        """SQL that replaces the table for whoever reads it: it includes the deltas that wait.

        Several of its rows may have the same key, and what waits may be below zero: only sums over them say something.
        """
        return f"""({self._rows}
           UNION ALL
          {self._waiting(f"'{ALL_PROJECTS_KEY}'::text", f"WHERE project_id <> '{ALL_PROJECTS_KEY}'")})"""

    @property
    def rows_of_projects(self) -> str:
        """SQL of the same, without the sums of all projects together."""
        return f"({self._rows})"

    @property
    def _rows(self) -> str:
        return f"""SELECT {self.columns}
            FROM {self.name}
           UNION ALL
          {self._waiting("project_id")}"""

    def _waiting(self, project_id: str, which: str = "") -> str:
        """SQL of what waits, added up before it is spread, since each statement has rows of its own."""
        sums = ", ".join(f"{measure.over_sums} AS {measure.name}" for measure in self.measures)
        names = "".join(f", {name}" for name in self.names)
        minutes = ", ".join(str(grain.minutes) for grain in self.grains)
        return f"""SELECT project_id, minutes, {bucket_of("bucket", "minutes")}{names}, {", ".join(self.sums)}
            FROM (SELECT {project_id} AS project_id, bucket{names}, {sums}
                    FROM sum_deltas {which}
                GROUP BY 1, bucket{names}) AS waiting
                 CROSS JOIN unnest(ARRAY[{minutes}]::smallint[]) AS minutes"""

    def rows_of(self, project_id: str | None) -> str:
        """SQL that replaces the table for readers of a project, or, for None, of all together."""
        return self.rows if project_id is None else self.rows_of_projects

    @property
    def is_empty(self) -> str:
        """SQL of whether nothing is in a row. One without runs may have the cost of runs that wait."""
        return " AND ".join(f"{name} = 0" for name in self.sums)

    @property
    def on_same(self) -> str:
        """The `SET` clause that adds a row to an existing one, `AS held`."""
        return f"""ON CONFLICT ({", ".join(self.key)}) DO UPDATE
             SET {", ".join(f"{name} = held.{name} + excluded.{name}" for name in self.sums)}"""


def grain_rows(grains: Sequence[Grain]) -> str:
    """SQL of these grains with their retention; without an interval they are kept for ever."""
    rows = (
        f"({grain.minutes}, make_interval(days => {grain.kept.days if grain.kept else 'NULL'}))" for grain in grains
    )
    return f"(VALUES {', '.join(rows)}) AS grains (minutes, kept)"


def bucket_of(moment: str, minutes: str | int) -> str:
    """SQL of the start of the bucket of a moment; the same in every time zone and Postgres version."""
    return f"to_timestamp(floor(date_part('epoch', {moment}) / ({minutes} * 60)) * ({minutes} * 60))"


def last_bucket(scope: str, grain: Grain) -> str:
    """SQL of the start of the last bucket of this length that has runs of a scope."""
    return f"""SELECT bucket
            FROM {TOTALS.rows} AS held
           WHERE project_id = {scope}
             AND grain = {grain.minutes}
        GROUP BY bucket
          HAVING sum(runs) > 0
        ORDER BY bucket DESC
           LIMIT 1"""


def first_day(project_id: str) -> str:
    """SQL of the start of the first day on which a project has runs."""
    return f"""SELECT min(bucket)
                                   FROM {TOTALS.rows_of_projects} AS held
                                  WHERE project_id = {project_id} AND grain = {TOTAL_GRAINS[-1].minutes} AND runs > 0"""


SLICES = SumTable("rollups", ("provider", "model"), MEASURES, GRAINS)
TOTALS = SumTable("rollup_totals", (), TOTAL_MEASURES, TOTAL_GRAINS)

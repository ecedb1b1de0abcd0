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
        """SQL that replaces the table for readers of all projects together: it includes unmerged deltas.

        Several of its rows may have the same key, and what waits may be below zero: only sums over them say something.
        """
        waiting = ", ".join((*self.names, *self.sums))
        return f"""(SELECT {self.columns}
            FROM {self.name}
           UNION ALL
          SELECT '{ALL_PROJECTS_KEY}'::text, minutes::smallint, {bucket_of("bucket", "minutes")}, {waiting}
            FROM rollup_deltas CROSS JOIN {self.grain_rows})"""

    def rows_of(self, project_id: str | None) -> str:
        """SQL that replaces the table for readers of a project, or, for None, of all together."""
        return self.rows if project_id is None else self.name

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


SLICES = SumTable("rollups", ("provider", "model"), MEASURES, GRAINS)
TOTALS = SumTable("rollup_totals", (), TOTAL_MEASURES, TOTAL_GRAINS)

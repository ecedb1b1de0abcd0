"""The tables of sums: what each tells apart, what it adds up, and in buckets of which lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

from runtally.models.measures import MEASURES, TOTAL_MEASURES, Measure
from runtally.models.rollup import GRAINS, TOTAL_GRAINS, Grain

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
    def on_same(self) -> str:
        """What adding to this table `AS held` does to a row that is there."""
        return f"""ON CONFLICT ({", ".join(self.key)}) DO UPDATE
             SET {", ".join(f"{name} = held.{name} + excluded.{name}" for name in self.sums)}"""


def grain_rows(grains: Sequence[Grain]) -> str:
    """SQL of these grains, and how long each is kept; without an interval for ever."""
    rows = (
        f"({grain.minutes}, make_interval(days => {grain.kept.days if grain.kept else 'NULL'}))" for grain in grains
    )
    return f"(VALUES {', '.join(rows)}) AS grains (minutes, kept)"


def bucket_of(moment: str, minutes: str | int) -> str:
    """SQL of the start of the bucket that holds a moment; the same in every time zone and by every version of Postgres."""
    return f"to_timestamp(floor(date_part('epoch', {moment}) / ({minutes} * 60)) * ({minutes} * 60))"


CELLS = SumTable("rollups", ("provider", "model"), MEASURES, GRAINS)
TOTALS = SumTable("rollup_totals", (), TOTAL_MEASURES, TOTAL_GRAINS)

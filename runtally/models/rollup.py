"""Sums of runs by project and time, kept in the same transaction as the runs, so that they are exact at every moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Index, Integer, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column, identity
from runtally.models.measures import MEASURES, TOTAL_MEASURES, Measure

ALL_PROJECTS_KEY = ""
"""In the tables, in place of a project: all of them together. No project has this id. Elsewhere: `RollupScope`."""

LATENCY_BASE = 1.02
"""From one bin of a latency sketch to the next. Whatever is in a bin is within 1 % of its middle (DDSketch)."""
EXACT_LATENCIES = 128
"""So many different latencies of a bucket are kept as they are; only more are put into bins."""
LONGEST_EXACT_MS = 500_000_000
"""Days; what takes longer is in a bin from the start, so that keys fit into four bytes."""


@dataclass(frozen=True, slots=True)
class RollupScope:
    """Whose runs a sum is of: a project's, or with None those of all projects together."""

    project_id: str | None

    def __post_init__(self) -> None:
        if self.project_id == ALL_PROJECTS_KEY:
            raise ValueError("None stands for all projects together, not a blank id")

    def __str__(self) -> str:
        return "All projects together" if self.project_id is None else self.project_id

    @property
    def key(self) -> str:
        """What stands for it in the tables."""
        return ALL_PROJECTS_KEY if self.project_id is None else self.project_id


ALL_PROJECTS = RollupScope(None)


@dataclass(frozen=True, slots=True)
class Grain:
    """A length of buckets, and how long such buckets are needed."""

    minutes: int
    kept: timedelta | None
    """Since the end of the bucket; None: for ever. Older times are read in longer buckets."""

    @property
    def length(self) -> timedelta:
        return timedelta(minutes=self.minutes)


# Each default interval of the metrics is one of these, so that a window is read as it is stored. Short ones
# expire, because of many projects with few runs each they would be many rows: there each holds a single run.
GRAINS = (
    Grain(15, timedelta(days=4)),
    Grain(60, timedelta(days=35)),
    Grain(360, None),
)
TOTAL_GRAINS = (*GRAINS, Grain(1_440, None))
"""Whole days as well, so that a month of a thousand projects is 30,000 rows; by models they would be too many to write."""


def _bucket_columns() -> tuple[Column[Any], ...]:
    """The key of a bucket; new columns for each table, because a column belongs to one."""
    return (
        Column("project_id", Text, primary_key=True, comment="Project of the runs; empty for all projects together."),
        Column(
            "grain", SmallInteger, primary_key=True, comment="Length of the bucket in minutes.", autoincrement=False
        ),
        Column("bucket", Timestamp, primary_key=True, comment="Start of the bucket (UTC)."),
    )


def _sum_columns(measures: Sequence[Measure]) -> Iterator[Column[Any]]:
    for measure in measures:
        default = text(measure.server_default) if measure.server_default else None
        yield Column(measure.name, measure.column_type, nullable=False, server_default=default, comment=measure.comment)


ROLLUPS = Table(
    "rollups",
    SQLModel.metadata,
    *_bucket_columns(),
    Column("provider", Text, primary_key=True, comment="Provider of the runs."),
    Column("model", Text, primary_key=True, comment="Model of the runs."),
    *_sum_columns(MEASURES),
)
"""The runs of one provider's model in one bucket. Every column that is no part of the key is a measure."""

ROLLUP_TOTALS = Table(
    "rollup_totals",
    SQLModel.metadata,
    *_bucket_columns(),
    *_sum_columns(TOTAL_MEASURES),
)
"""The runs of one bucket, of all models: one row where rollups have one per model, for what does not tell these apart."""
# A day of all projects is a row of each: without this, each of them is looked up by itself (240 KB for 30,000 days).
Index("ix_rollup_totals_days", ROLLUP_TOTALS.c.bucket, postgresql_where=text("grain = 1440"))


class LatencySketch(SQLModel, table=True):
    """How the latencies of a bucket's runs are distributed, close enough for percentiles within 1 %."""

    __tablename__ = "latency_sketches"

    project_id: str = column("Project of the runs; empty for all projects together.", key=True)
    grain: int = column("Length of the bucket in minutes.", SmallInteger, key=True)
    bucket: datetime = column("Start of the bucket (UTC).", Timestamp, key=True)
    latencies: list[int] = column(
        "Twice each latency in milliseconds, or twice the middle of its bin where there are many, ascending; from 1e9 on the "
        "number of a bin.",
        ARRAY(Integer),
    )
    counts: list[int] = column("Runs with each of these latencies.", ARRAY(Integer))
    p50: int | None = column("Of these latencies the median, by nearest rank; not known until runs are added.", Integer)
    p95: int | None = column("Of these latencies the 95th percentile; not known until runs are added.", Integer)


class LatencyDelta(SQLModel, table=True):
    """Latencies that the sketches do not have yet: of the runs of one statement in one of the shortest buckets.

    To add to six sketches takes longer than all the rest of storing a run; so it is done each second, for all that came
    meanwhile, and who reads sketches reads these too.
    """

    __tablename__ = "latency_deltas"

    project_id: str = column("Project of the runs.", key=True)
    bucket: datetime = column("Start of the bucket (UTC).", Timestamp, key=True)
    id: int | None = identity()
    latencies: list[int] = column("As in a sketch, in no order; one may be there several times.", ARRAY(Integer))
    counts: list[int] = column("Runs with each of these latencies; below zero, runs that went.", ARRAY(Integer))

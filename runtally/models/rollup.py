"""Rollups: sums of runs by project and time, exact at every moment: the runs' transaction writes what is to be added to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, Identity, Index, Integer, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column, identity
from runtally.models.measures import MEASURES, TOTAL_MEASURES, Measure

ALL_PROJECTS_KEY = ""
"""The project id of sums over all projects, which no project can have. Use `RollupScope` outside of tables."""

LATENCY_BASE = 1.02
"""The ratio of two bins of a latency sketch. A value is within 1 % of the middle of its bin (DDSketch)."""
EXACT_LATENCIES = 128
"""The number of different latencies of a bucket that are kept exactly; more are put into bins."""
LONGEST_EXACT_MS = 500_000_000
"""The longest exact latency, some days; a longer one is always in a bin, so that keys fit into four bytes."""


@dataclass(frozen=True, slots=True)
class RollupScope:
    """The project whose runs are summed, or all projects together with None."""

    project_id: str | None

    def __post_init__(self) -> None:
        if self.project_id == ALL_PROJECTS_KEY:
            raise ValueError("None stands for all projects together, not a blank id")

    def __str__(self) -> str:
        return "All projects together" if self.project_id is None else self.project_id

    @property
    def key(self) -> str:
        """The project id in the tables."""
        return ALL_PROJECTS_KEY if self.project_id is None else self.project_id


ALL_PROJECTS = RollupScope(None)


@dataclass(frozen=True, slots=True)
class Grain:
    """A length of buckets, and how long such buckets are kept."""

    minutes: int
    kept: timedelta | None
    """How long after its end a bucket is kept; None: for ever. Older times are read in longer buckets."""

    @property
    def length(self) -> timedelta:
        return timedelta(minutes=self.minutes)


# Each default interval of the metrics is a grain, so that a window is read as it is stored. Short buckets expire: many
# projects with few runs each would have many rows, each with a single run.
GRAINS = (
    Grain(15, timedelta(days=4)),
    Grain(60, timedelta(days=35)),
    Grain(360, None),
)
TOTAL_GRAINS = (*GRAINS, Grain(1_440, None))
"""Grains of totals, with whole days, so that a month of a thousand projects is 30,000 rows. By model, days would be too
many.
"""


def _bucket_columns() -> tuple[Column[Any], ...]:
    """Create the key columns of a bucket, new ones for each table, because a column belongs to one."""
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
"""The runs of one provider's model in one bucket. Every column outside of the key is a measure."""

ROLLUP_TOTALS = Table(
    "rollup_totals",
    SQLModel.metadata,
    *_bucket_columns(),
    *_sum_columns(TOTAL_MEASURES),
)
"""The runs of one bucket, of all models: one row instead of one per model."""
# Days of all projects at once: without this index each project is looked up by itself (240 KB for 30,000 days).
Index("ix_rollup_totals_days", ROLLUP_TOTALS.c.bucket, postgresql_where=text("grain = 1440"))

SUM_DELTAS = Table(
    "sum_deltas",
    SQLModel.metadata,
    Column(
        "project_id",
        Text,
        primary_key=True,
        server_default="",
        comment="Project of the runs; empty: of sums that were only to be added to those of all projects.",
    ),
    Column("bucket", Timestamp, primary_key=True, comment="Start of a bucket of the shortest length (UTC)."),
    Column("id", BigInteger, Identity(), primary_key=True, comment="Number of the row."),
    Column("provider", Text, nullable=False, comment="Provider of the runs."),
    Column("model", Text, nullable=False, comment="Model of the runs."),
    *_sum_columns(MEASURES),
)
"""What the sums of a project, and of all together, do not have yet: the runs of one statement, of one provider's model in one bucket.

To add to some thirty rows takes longer than to store the runs, and each flush would lock them until its commit, while all others
wait for it. Below zero where runs went. They are added up each second, and who reads sums reads these too.
"""


class LatencySketch(SQLModel, table=True):
    """The distribution of the latencies of a bucket's runs, accurate for percentiles within 1 %."""

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

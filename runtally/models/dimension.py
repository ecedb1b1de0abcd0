"""Sums of runs by tracked dimension: the keys that a project tracks, the sums of each day, and those not merged yet."""

from collections.abc import Iterator
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Date, Identity, Integer, SmallInteger, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from runtally.models.base import TextArray, Timestamp, column
from runtally.models.measures import MEASURES

EVERY_PROJECT = ""
"""In `tracked_keys`, in place of a project: keys that every project tracks unless it has an entry of its own."""

DIMENSION_MEASURES = tuple(measure for measure in MEASURES if measure.in_dimensions)
"""The measures that are summed by dimension."""

MAX_TRACKED_KEYS = 12
"""The most keys that a project may track."""
MAX_VALUES = 5_000
"""The most values of a key, day and project that have sums of their own; all other runs are one sum."""
MAX_VALUE_LENGTH = 256
"""The most characters of a value; longer ones are cut."""

HOURS_KEPT_DAYS = 35
"""The days for which sums by hour are kept; those by day are kept for ever."""


class Detail(StrEnum):
    """The further keys by which the sums of a block are split."""

    DAY = "day"
    """None: most questions read these."""
    MODEL = "model"
    """Provider and model."""
    HOUR = "hour"


class KeyState(StrEnum):
    """The state of a key in a project."""

    TRACKED = "tracked"
    FILLING = "filling"
    """New runs are counted, and a job counts earlier ones; until it is done the sums are not read."""
    DROPPING = "dropping"
    """A job deletes its sums."""
    UNTRACKED = "untracked"
    """It is tracked in every other project."""


class TrackedKey(SQLModel, table=True):
    """A key whose values have sums of their own, in one project or in all."""

    __tablename__ = "tracked_keys"
    __table_args__ = (CheckConstraint("state IN ('tracked', 'filling', 'dropping', 'untracked')", name="state"),)

    project_id: str = column("Project that tracks it; empty: each project without an entry of its own.", key=True)
    key: str = column("Name of the dimension: user, session, tags, or a key of metadata.", key=True)
    id: int | None = Field(
        None,
        sa_type=BigInteger,
        nullable=False,
        sa_column_args=[Identity()],
        sa_column_kwargs={"comment": "Number of the key in the sums; another one when it is tracked anew."},
    )
    names: list[str] = column(
        "Keys of metadata whose values count, the first that a run has; none: a column of runs.", TextArray
    )
    state: str = column("tracked, filling, dropping or untracked.")
    changed_at: datetime = column("When it came to this state (UTC).", Timestamp)
    filled_until: date | None = column("Filling goes on with this day; empty: not begun.", Date, default=None)
    complete_since: date | None = column(
        "Its sums have all runs of this day and later ones; empty: of all days.", Date, default=None
    )


def _key() -> tuple[Column[Any], ...]:
    return (
        Column("project_id", Text, primary_key=True, comment="Project of the runs."),
        Column("key_id", BigInteger, primary_key=True, autoincrement=False, comment="Number of the tracked key."),
    )


def _measure_arrays() -> Iterator[Column[Any]]:
    for measure in DIMENSION_MEASURES:
        yield Column(measure.name, ARRAY(measure.column_type), nullable=False, comment=measure.comment)


DIMENSION_SUMS = Table(
    "dimension_sums",
    SQLModel.metadata,
    *_key(),
    Column(
        "detail", Text, primary_key=True, comment="What its sums are kept by besides the value: day, model or hour."
    ),
    Column("day", Date, primary_key=True, comment="Day of the runs (UTC)."),
    Column("hours", ARRAY(SmallInteger), nullable=False, comment="Hour of each sum; 0 where it is of a day."),
    Column("dimension_values", TextArray, nullable=False, comment="Value of each sum; empty: all other values."),
    Column("providers", TextArray, nullable=False, comment="Provider of each sum; blank where it is of all models."),
    Column("models", TextArray, nullable=False, comment="Model of each sum; blank where it is of all models."),
    *_measure_arrays(),
)
"""All sums of one key and day in a row, column by column, which Postgres packs far smaller than a row for each sum."""

DIMENSION_LATENCIES = Table(
    "dimension_latencies",
    SQLModel.metadata,
    *_key(),
    Column("day", Date, primary_key=True, comment="Day of the runs (UTC)."),
    Column("dimension_values", TextArray, nullable=False, comment="Value of each count; empty: all other values."),
    Column("latencies", ARRAY(Integer), nullable=False, comment="Latency of each count, as in a binned sketch."),
    Column("counts", ARRAY(BigInteger), nullable=False, comment="Runs of the value with this latency."),
)
"""The latency sketches of one key and day in a row. Those by hour are read from the runs: they took half of the
merge.
"""

DIMENSION_DELTAS = Table(
    "dimension_deltas",
    SQLModel.metadata,
    Column("project_id", Text, primary_key=True, comment="Project of the runs."),
    Column("id", BigInteger, Identity(), primary_key=True, comment="Number of the row."),
    Column("queued_at", Timestamp, nullable=False, server_default=text("now()"), comment="Since when it waits (UTC)."),
    Column("size", Integer, nullable=False, comment="Runs, those taken away included."),
    Column("key_ids", ARRAY(BigInteger), nullable=False, comment="Numbers of the tracked keys."),
    Column("dimension_values", TextArray, nullable=False, comment="For each run its values of these keys."),
    Column("hours", ARRAY(Integer), nullable=False, comment="For each run its hour since 1970 (UTC)."),
    Column("providers", TextArray, nullable=False, comment="For each run its provider."),
    Column("models", TextArray, nullable=False, comment="For each run its model."),
    Column("latencies", ARRAY(Integer), nullable=False, comment="For each run its latency as in a sketch."),
    *_measure_arrays(),
)
"""Runs that the sums by dimension do not have yet: those of one statement and project. Those taken away count below zero.

To add them to the sums of all their values takes longer than to store them; it is done for thousands at once, and what
reads sums reads these too.
"""

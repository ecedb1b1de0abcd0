"""What is read of runs apart from the runs themselves, and a position in their order, as it is written into a URL. Pure."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from runtally.errors import Detail, InvalidFilter
from runtally.models.run import Status, StoredRun
from runtally.usage.sketch import Sketch
from runtally.usage.summary import Group


class Direction(StrEnum):
    """The direction from a place; each value is a query parameter."""

    OLDER = "before"
    NEWER = "after"


class Place(NamedTuple):
    """The place of a run in the order of runs: its time, and its key among runs of the same time."""

    occurred_at: datetime
    id: str
    project_id: str

    @property
    def token(self) -> str:
        """The place as text that is safe in a URL."""
        packed = msgspec.json.encode(tuple(self))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Read a place from its token. Raises `ValueError` for an invalid one."""
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        place = cls(*msgspec.json.decode(packed, type=tuple[datetime, str, str]))
        # Our tokens have a time zone, and Postgres stores no NUL.
        if place.occurred_at.tzinfo is None or "\0" in place.id + place.project_id:
            raise ValueError(token)
        return place


@dataclass(frozen=True, slots=True)
class Position:
    """The position where a page begins: the newest run, or one side of a place."""

    direction: Direction = Direction.OLDER
    place: Place | None = None

    @classmethod
    def parse(cls, before: str | None, after: str | None) -> Self:
        """Read the position from query parameters. Raises `InvalidFilter`."""
        direction = Direction.NEWER if after else Direction.OLDER
        token = after or before
        if not token:
            return cls()
        try:
            return cls(direction, Place.of_token(token))
        except (ValueError, binascii.Error, msgspec.DecodeError):
            message = "must be the address of a link on the page; start again from the newest runs"
            raise InvalidFilter(details=(Detail(direction.value, message),)) from None


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """The time that a scan covers: from `begin`, in its direction, to `end`; None means no limit."""

    begin: datetime | None = None
    end: datetime | None = None
    models: Sequence[str] | None = None
    """The only models that match, where their runs are few enough to look up at once."""
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run as lists show it."""

    project_id: str
    id: str
    occurred_at: datetime
    provider: str
    model: str
    status: Status
    error_code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    latency_ms: int | None
    time_to_first_token_ms: int | None
    cost_usd: Decimal | None
    cost_estimated: bool | None
    without_usage: bool | None
    experiment_id: str | None
    trace_id: str | None
    session_id: str | None
    user_id: str | None
    is_archived: bool = False


LISTED_FIELDS = tuple(field.name for field in fields(ListedRun) if field.name != "is_archived")
"""The fields of runs that lists show."""
AnyRun = TypeVar("AnyRun", StoredRun, ListedRun)


@dataclass(frozen=True, slots=True)
class Scan(Generic[AnyRun]):
    """The matching runs of a scan, in its order, and the place behind which it goes on; None if these are the last."""

    runs: tuple[AnyRun, ...] = ()
    stopped_at: Place | None = None


def place_of(run: StoredRun | ListedRun) -> Place:
    """Return the place of a run in the order of runs."""
    return Place(run.occurred_at, run.id, run.project_id)


@dataclass(frozen=True, slots=True)
class Totals:
    """The runs that match, and what they cost where that is known."""

    runs: int
    cost_usd: Decimal | None
    unpriced: int

    def __add__(self, other: "Totals") -> "Totals":
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Totals(self.runs + other.runs, cost, 0 if cost is None else self.unpriced + other.unpriced)


@dataclass(frozen=True, slots=True)
class Extremes:
    """The slowest and the most expensive runs, highest first; with `reached`, only of those since then."""

    slowest: tuple[ListedRun, ...] = ()
    costliest: tuple[ListedRun, ...] = ()
    reached: datetime | None = None


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies by provider and model; with `reached`, only of runs since then."""

    of_models: Mapping[Group, Sketch] = field(default_factory=dict)
    reached: datetime | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """The use of a provider or model: its buckets nearest to a time, and its number of runs."""

    runs: int
    models: Sequence[str]
    last: datetime | None
    next: datetime | None

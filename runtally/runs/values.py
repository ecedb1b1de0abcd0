"""The values that are read of runs, apart from the runs themselves. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from runtally.models.run import Status, StoredRun
from runtally.runs.position import Place
from runtally.usage.sketch import Sketch
from runtally.usage.summary import Group


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

    @property
    def place(self) -> Place:
        return Place(self.occurred_at, self.id, self.project_id)


@dataclass(frozen=True, slots=True)
class Scan:
    """The matching runs of a scan, in its order, and where it stopped before the end."""

    runs: tuple[ListedRun, ...]
    stopped_at: Place | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Runs of a file, newest first, and the place behind which the next ones are; None if these are the last."""

    runs: tuple[StoredRun, ...]
    reached: Place | None


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

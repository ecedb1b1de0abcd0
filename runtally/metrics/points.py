"""What `GET /api/metrics` tells: of each bucket no more than its point says, which is less than a page draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, Self

from runtally.db.database import Connection
from runtally.metrics.point_queries import BucketSums, Found, select_points
from runtally.metrics.read import read_buckets
from runtally.metrics.sketch import milliseconds_of, percentiles_of_all
from runtally.metrics.values import Metrics, Point, Tally, by_names
from runtally.metrics.window import Window
from runtally.money import plain


class Told(NamedTuple):
    """What is told of a bucket."""

    runs: int
    failed: int
    cost_usd: str
    """Every digit, as `money.plain` writes them: it is only passed on."""
    tokens_in: int
    tokens_out: int
    p95_ms: float

    @property
    def error_rate(self) -> float:
        """Share of failed runs; 0 without runs."""
        return self.failed / self.runs if self.runs else 0.0


_NO_RUNS: BucketSums = (0, 0, "0", 0, 0)


@dataclass(frozen=True, slots=True)
class Points:
    """Every bucket of a window, empty ones too, and what was used in it. All sums are over the same runs."""

    told: tuple[Told, ...]
    by_provider: Mapping[str, Decimal]
    """Cost in US dollars, most expensive first."""
    by_model: Mapping[str, Decimal]

    @classmethod
    def of(cls, metrics: Metrics) -> Self:
        return cls(tuple(map(_told, metrics.points)), _costs(metrics.by_provider), _costs(metrics.by_model))

    @classmethod
    def of_stored(cls, window: Window, found: Found) -> Self:
        p95_ms = {number: milliseconds_of(p95) for number, p95 in found.p95.items()}
        p95_ms |= {number: percentiles_of_all(parts, 95)[0] for number, parts in found.sketches.items()}
        told = (Told(*found.sums.get(number, _NO_RUNS), p95_ms.get(number, 0)) for number in range(window.length))
        return cls(tuple(told), *map(_costs, by_names(found.models)))


async def read_points(connection: Connection, window: Window, project_id: str | None) -> Points:
    """Of a project, or of all projects with `project_id` None."""
    grain = window.stored_grain
    if grain is None:
        return Points.of(await read_buckets(connection, window, project_id))
    return Points.of_stored(window, await select_points(connection, window, grain, project_id))


def _told(point: Point) -> Told:
    tally = point.tally
    cost_usd = plain(tally.cost_usd)
    return Told(tally.runs, tally.failed, cost_usd, tally.tokens_in, tally.tokens_out, point.latency.p95_ms)


def _costs(tallies: Mapping[str, Tally]) -> dict[str, Decimal]:
    return {name: tally.cost_usd for name, tally in tallies.items()}

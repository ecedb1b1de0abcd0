"""Metrics recounted in plain Python, straight from the runs: what the service's numbers are compared with."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from runtally.models.run import Status, StoredRun


@dataclass(frozen=True)
class Recount:
    """The runs of one bucket, or of a whole window."""

    runs: int
    failed: int
    unpriced: int
    cost_usd: Decimal
    costs_usd: dict[str, Decimal]
    """By status."""
    tokens_in: int
    tokens_out: int
    estimated: int
    p50_ms: float
    p95_ms: float

    def is_about(self, exact: "Recount") -> bool:
        """Whether the sums are those, and the percentiles within 1 %."""
        same = replace(self, p50_ms=exact.p50_ms, p95_ms=exact.p95_ms) == exact
        return same and all(
            abs(found - true) <= true / 100
            for found, true in ((self.p50_ms, exact.p50_ms), (self.p95_ms, exact.p95_ms))
        )


def recount(runs: Iterable[StoredRun]) -> Recount:
    runs = list(runs)
    latencies = sorted(run.latency_ms for run in runs if run.latency_ms is not None)
    return Recount(
        runs=len(runs),
        failed=sum(run.status in {"error", "timeout"} for run in runs),
        unpriced=sum(run.cost_usd is None for run in runs),
        cost_usd=sum((run.cost_usd for run in runs if run.cost_usd is not None), Decimal(0)),
        costs_usd={status: Decimal(0) for status in Status} | cost_by(runs, "status"),
        tokens_in=sum(run.input_tokens or 0 for run in runs),
        tokens_out=sum(run.output_tokens or 0 for run in runs),
        estimated=sum(bool(run.cost_estimated) for run in runs),
        p50_ms=nearest_rank(latencies, 50),
        p95_ms=nearest_rank(latencies, 95),
    )


def nearest_rank(ordered: list[int], percent: int) -> int:
    """The smallest value that at least so many percent do not exceed; 0 for none."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else 0


def by_bucket(runs: Iterable[StoredRun], start: datetime, step: timedelta, count: int) -> list[Recount]:
    buckets: dict[int, list[StoredRun]] = defaultdict(list)
    for run in runs:
        buckets[(run.occurred_at - start) // step].append(run)
    return [recount(buckets[number]) for number in range(count)]


def cost_by(runs: Iterable[StoredRun], name: str) -> dict[str, Decimal]:
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for run in runs:
        costs[getattr(run, name)] += run.cost_usd or Decimal(0)
    return dict(costs)

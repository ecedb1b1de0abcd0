"""Metrics for charts, out of what each bucket holds."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from runtally.metrics.values import Cell, Latency, Metrics, Tally
from runtally.metrics.window import Range, Window

NOW = datetime(2026, 11, 21, 12, 40, tzinfo=UTC)

Costs = Mapping[int, Mapping[str, str]]


def make_metrics(
    costs: Costs | None = None,
    *,
    tallies: Mapping[int, Tally] | None = None,
    latencies: Mapping[int, int] | None = None,
    range_: Range = Range.WEEK,
    previous: bool = False,
) -> Metrics:
    """Buckets by number: dollars of each model (its provider has the model's first letter), or tallies, or p95s."""
    window = Window.of(range_, NOW, range_.chart_interval)
    window = window.previous(NOW) if previous else window
    buckets = window.buckets
    cells = [
        Cell(buckets[number], model[:1], model, Tally(runs=1, cost_usd=Decimal(dollars)))
        for number, models in (costs or {}).items()
        for model, dollars in models.items()
    ]
    cells += [Cell(buckets[number], "p", "m", tally) for number, tally in (tallies or {}).items()]
    p95s = latencies or {}
    highest = max(p95s.values(), default=0)
    of_buckets: dict[int | None, Latency] = {number: Latency(p95, p95) for number, p95 in p95s.items()}
    return Metrics.of_cells(window, cells, of_buckets | {None: Latency(highest, highest)})

"""Summaries for charts, out of what each bucket holds."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from runtally.usage.dimensions import STATUS, Dimension
from runtally.usage.sketch import Latency
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary
from webapp.charts import series
from webapp.charts.chart import Chart
from webapp.charts.marks import Mark
from webapp.charts.metrics import Metric
from webapp.charts.series import STATUS_SLOTS, Groups

NOW = datetime(2026, 11, 21, 12, 40, tzinfo=UTC)

Costs = Mapping[int, Mapping[str, str]]


def make_summary(
    costs: Costs | None = None,
    *,
    totals: Mapping[int, Totals] | None = None,
    latencies: Mapping[int, int] | None = None,
    range_: Range = Range.WEEK,
    previous: bool = False,
) -> Summary:
    """Buckets by number: dollars of each model (its provider has the model's first letter), or totals, or p95s."""
    window = Window.of(range_, NOW, range_.chart_interval)
    window = window.previous(NOW) if previous else window
    buckets = window.starts
    slices = [
        Slice(buckets[number], model[:1], model, Totals(runs=1, cost_usd=Decimal(dollars)))
        for number, models in (costs or {}).items()
        for model, dollars in models.items()
    ]
    slices += [Slice(buckets[number], "p", "m", one) for number, one in (totals or {}).items()]
    p95s = latencies or {}
    highest = max(p95s.values(), default=0)
    of_buckets = {number: Latency(p95, p95) for number, p95 in p95s.items()}
    return made_summary(window, slices, of_buckets, Latency(highest, highest))


def cost(
    summary: Summary, previous: Summary | None, by: Dimension, slots: Mapping[str, str], marks: Sequence[Mark] = ()
) -> Chart:
    """Return the chart of cost, grouped by a dimension in these colours."""
    if by == STATUS:
        slots = {status.value: slot for status, slot in STATUS_SLOTS.items()}
        return series.chart(Metric.COST, summary.grouped_by_status(), previous, Groups(by, slots), marks)
    return series.chart(Metric.COST, summary.grouped_by(by), previous, Groups(by, slots), marks)

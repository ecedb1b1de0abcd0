"""The figures over a whole range, with the change from the previous period."""

from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from runtally.usage.report import Report
from runtally.usage.sketch import Latency
from runtally.usage.totals import NO_RUNS, Totals
from webapp import formats
from webapp.charts.metrics import Metric
from webapp.formats import Change
from webapp.view import View

LABELS = {
    Metric.COST: "Cost",
    Metric.RUNS: "Runs",
    Metric.ERRORS: "Error rate",
    Metric.LATENCY: "p95 latency",
    Metric.TOKENS: "Tokens",
}


class Reading(Struct, frozen=True):
    """The text of a figure. Without runs there is no rate and no latency, rather than 0."""

    value: str = formats.NOTHING
    note: str = ""
    change: Change | None = None
    is_minimum: bool = False


class Kpi(Struct, frozen=True):
    """A figure; choosing it chooses what the main chart shows."""

    metric: Metric
    label: str
    reading: Reading
    url: str
    is_chosen: bool


def kpis_of(report: Report | None, view: View, now: datetime, forecast_usd: Decimal | None = None) -> tuple[Kpi, ...]:
    """Return the figures; without a report each of them is unknown. `forecast_usd` is that of the budget of these runs."""
    readings = dict.fromkeys(LABELS, Reading()) if report is None else _readings(report, view, now, forecast_usd)
    return tuple(
        Kpi(metric, LABELS[metric], reading, view.replace(metric=metric).url, metric is view.metric.kpi)
        for metric, reading in readings.items()
    )


def _readings(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> dict[Metric, Reading]:
    return {
        Metric.COST: _cost(report, view, now, forecast_usd),
        Metric.RUNS: _runs(report),
        Metric.ERRORS: _errors(report, view),
        Metric.LATENCY: _latency(report, view),
        Metric.TOKENS: _tokens(report),
    }


def _cost(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> Reading:
    total = report.bars.total
    if total.runs and total.runs == total.unpriced:
        return Reading(note="no run has a price")
    return Reading(
        formats.money(total.cost_usd),
        _pace(report, view, now, forecast_usd) if total.cost_usd else "",
        formats.change(total.cost_usd, _before(report).cost_usd),
        is_minimum=total.is_minimum,
    )


def _pace(report: Report, view: View, now: datetime, forecast_usd: Decimal | None) -> str:
    """Return the forecast of the budget, else the cost of a month at the current pace.

    It is empty for past ranges, for less than a day, and for failed runs.
    """
    pace_usd = forecast_usd or report.month_pace_usd(now)
    if report.bars.window.is_over or pace_usd is None or view.filter.status is not None:
        return ""
    pace = formats.rough_money(pace_usd)
    return f"{'' if pace.startswith('<') else '≈ '}{pace} {'this' if forecast_usd else 'a'} month at this pace"


def estimates_of(total: Totals) -> str:
    """Return how much of the cost is an estimate, in words; nothing where none is."""
    priced = total.runs - total.unpriced
    if not total.estimated:
        return ""
    if total.estimated == priced:
        return "All of the cost is estimated."
    return f"The cost of {formats.percent(total.estimated / priced, digits=1)} of the runs is estimated."


def _runs(report: Report) -> Reading:
    total = report.bars.total
    note = f"{formats.unit_money(total.cost_per_run)} per run" if total.cost_usd else ""
    return Reading(formats.count(total.runs), note, formats.change(Decimal(total.runs), Decimal(_before(report).runs)))


def _errors(report: Report, view: View) -> Reading:
    total, before = report.bars.total, _before(report)
    if not total.runs:
        return Reading()
    if view.filter.status is not None or view.filter.error_code is not None:
        # Of failed runs all failed.
        return Reading(note="remove the status filter to see it")
    note = {0: "no failed runs", 1: "1 failed run"}.get(total.failed, f"{formats.count(total.failed)} failed runs")
    change = formats.change_in_points(total.error_rate, before.error_rate) if before.runs else None
    return Reading(formats.percent(total.error_rate), note, change)


def _latency(report: Report, view: View) -> Reading:
    latency, total = report.bars.latency, report.bars.total
    before = report.previous.latency if report.previous else Latency()
    if not latency.p95_ms:
        is_of_all = view.filter.is_narrowed and view.project_id is None
        return Reading(note="choose a project to see it" if is_of_all and total.runs else "")
    change = formats.change(Decimal(latency.p95_ms), Decimal(before.p95_ms), more_is_worse=True)
    return Reading(formats.duration(latency.p95_ms), f"p50 {formats.duration(latency.p50_ms)}", change)


def _tokens(report: Report) -> Reading:
    total = report.bars.total
    note = (
        f"{formats.tokens(total.input_tokens)} in · {formats.tokens(total.output_tokens)} out" if total.tokens else ""
    )
    change = formats.change(Decimal(total.tokens), Decimal(_before(report).tokens))
    return Reading(formats.tokens(total.tokens), note, change)


def _before(report: Report) -> Totals:
    """Return the totals of the previous period; zero if it cannot be compared with."""
    return report.previous.total if report.previous else NO_RUNS

"""What a page says of a project, from values alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.usage.report import KnownProject, Report, UnpricedModel
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary

NOW = datetime(2026, 11, 21, 9, 50, tzinfo=UTC)
WEEK = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)


def _slice(hours_before_end: float, model: str = "large", **totals: int | Decimal) -> Slice:
    bucket = WEEK.starts[-1 - int(hours_before_end) // 6]
    return Slice(bucket, "acme", model, Totals(**({"runs": 1} | totals)))  # type: ignore[arg-type]  # Any field of it.


def _report(*slices: Slice) -> Report:
    summary = made_summary(WEEK, slices)
    return Report(summary, summary, None, models=summary)


def test_only_what_has_runs_from_the_start_is_compared() -> None:
    before = WEEK.previous(NOW)

    def reaches_back(first_run_at: datetime | None, dropped_before: datetime | None = None, **read: bool) -> bool:
        project = KnownProject(
            "shop",
            "Shop",
            is_hidden=False,
            first_run_at=first_run_at,
            last_received_at=NOW,
            dropped_before=dropped_before,
        )
        return project.reaches_back_to(before, **read)

    assert reaches_back(before.start - timedelta(days=90))
    assert reaches_back(before.start + timedelta(hours=5))
    assert not reaches_back(before.start + timedelta(hours=6))
    assert not reaches_back(None)
    assert reaches_back(before.start - timedelta(days=90), before.start + timedelta(hours=6))
    assert not reaches_back(before.start - timedelta(days=90), before.start + timedelta(hours=6), with_single_runs=True)


def test_models_without_a_price_come_with_their_runs_most_first() -> None:
    report = _report(
        _slice(1, "a", unpriced=1),
        _slice(2, "b", unpriced=1),
        _slice(3, "b", unpriced=1),
        _slice(4, "c", cost_usd=Decimal(1)),
    )

    assert report.unpriced_models == (UnpricedModel("acme", "b", 2), UnpricedModel("acme", "a", 1))


def test_a_month_costs_as_much_as_goes_on_in_this_period() -> None:
    report = _report(_slice(100, cost_usd=Decimal(7)))
    established = replace(report, previous=report.bars)
    elapsed = NOW - WEEK.start

    pace = established.month_pace_usd(NOW)

    assert pace == Decimal(7) * 2_628_000 / int(elapsed.total_seconds())
    assert Decimal(30) < pace < Decimal(32)


def test_the_pace_of_a_period_longer_than_its_runs_counts_from_the_first_run() -> None:
    report = _report(_slice(47, cost_usd=Decimal(2)), _slice(1, cost_usd=Decimal(2)))
    elapsed = NOW - WEEK.starts[-8]

    assert report.month_pace_usd(NOW) == Decimal(4) * 2_628_000 / int(elapsed.total_seconds())


def test_runs_of_less_than_a_day_have_no_pace() -> None:
    assert _report(_slice(19, cost_usd=Decimal(2))).month_pace_usd(NOW) is None


def test_cost_per_run_is_over_the_runs_whose_cost_is_known() -> None:
    assert Totals(runs=5, unpriced=1, cost_usd=Decimal(8)).cost_per_run == Decimal(2)
    assert Totals(runs=1, unpriced=1).cost_per_run == 0

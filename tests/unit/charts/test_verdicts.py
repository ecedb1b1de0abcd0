"""Charts of experiments."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf

from runtally.experiments.estimate import Estimate
from runtally.experiments.verdict import Measure
from webapp.charts import verdicts
from webapp.charts.verdicts import Day

FIRST = datetime(2026, 10, 23, tzinfo=UTC)


def days(*values: str | None) -> list[Day]:
    return [
        Day(FIRST + timedelta(days=number), None if value is None else Decimal(value), 100, "Pass")
        for number, value in enumerate(values)
    ]


def test_a_figure_is_drawn_against_its_limit_with_gaps_for_missing_values() -> None:
    chart = verdicts.history(Measure.ERROR_RATE, days(None, "0.02", "0.07"), Decimal("0.05"))

    datasets = json.loads(chart.payload())["spec"]["datasets"]
    assert [row["y"] for row in datasets["points"]] == [None, 0.02, 0.07]
    assert datasets["limit"] == [{"y": 0.05}]
    assert chart.previous_name == "Limit 5%"
    assert chart.sentence == "Error rate at the end of each of 3 days. Limit 5%; over it on 1. Now: 7.00%."
    assert chart.table.rows[0] == ("Fri 23 Oct UTC", "\u2013", "100", "Pass")
    assert chart.table.rows[-1][0] == "Sun 25 Oct UTC, so far"


def test_a_figure_without_a_limit_is_a_trend() -> None:
    chart = verdicts.history(Measure.P95_LATENCY_MS, days(None, "900"), None)

    assert "limit" not in json.loads(chart.payload())["spec"]["datasets"]
    assert not chart.has_previous
    assert chart.sentence == "p95 latency at the end of each of 2 days. Now: 900 ms."
    assert verdicts.history(Measure.P95_LATENCY_MS, days(None, None), None).sentence.endswith("Now: \u2013.")


def test_the_axis_reaches_the_limit_however_low_the_figures_are() -> None:
    chart = verdicts.history(Measure.COST_PER_RUN_USD, days("0.001"), Decimal("0.02"))

    assert chart.ticks[1].values[-1] >= 0.02


def test_a_month_has_its_mondays_and_a_week_all_its_days() -> None:
    month = verdicts.history(Measure.ERROR_RATE, days(*["0"] * 30), Decimal("0.05"))
    week = verdicts.history(Measure.ERROR_RATE, days(*["0"] * 7), Decimal("0.05"))

    assert month.ticks[0].labels == ("26 Oct", "2 Nov", "9 Nov", "16 Nov")
    assert month.ticks[0].values[0] == 3.5
    assert len(week.ticks[0].labels) == 7


def test_two_estimates_stand_one_above_the_other() -> None:
    arms = [("old", Estimate(900.0, 800.0, 1000.0, 200)), ("new", Estimate(700.0, 650.0, inf, 40))]

    chart = verdicts.intervals(Measure.P95_LATENCY_MS, arms)

    payload = json.loads(chart.payload())
    rows = payload["spec"]["datasets"]["rows"]
    assert [(row["i"], row["x"], row["slot"]) for row in rows] == [(1, 900.0, "c1"), (0, 700.0, "c3")]
    # Without an upper end the bar goes on to the edge.
    edge = chart.ticks[0].values[-1]
    assert rows[1]["b"] == edge
    assert {one["name"]: one.get("value") for one in payload["spec"]["params"]}["ends"] == [0, edge]
    assert chart.table.rows == (("old", "900 ms", "800 ms", "1.0 s"), ("new", "700 ms", "650 ms", "not known"))


def test_who_has_no_runs_is_named_all_the_same() -> None:
    chart = verdicts.intervals(Measure.ERROR_RATE, [("same", None), ("same", Estimate(0.1, 0.05, 0.2, 100))])

    assert [row[0] for row in chart.table.rows] == ["same", "same"]
    assert chart.table.rows[0][1:] == ("\u2013",) * 3

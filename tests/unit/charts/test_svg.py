"""Charts as SVG that stands by itself."""

from datetime import UTC, datetime
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from runtally.usage.sketch import Latency
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Cell, made_summary
from webapp.charts import series
from webapp.charts.chart import Chart
from webapp.charts.series import Split
from webapp.charts.svg import HEIGHT, WIDTH, Look, svg_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
EVIL = '<script>"&\x00\ud800 \U0001f600'


def metrics(*, model: str = "m", usd: str = "1.5") -> Summary:
    cells = [
        Cell(bucket, "p", model, Totals(2, 1, cost_usd=Decimal(usd), input_tokens=10, output_tokens=5))
        for bucket in WINDOW.buckets[3:9]
    ]
    return made_summary(WINDOW, cells, {number: Latency(100, 900) for number in range(3, 9)})


def charts() -> dict[str, Chart]:
    found = metrics()
    return {
        "cost": series.cost(found, metrics(usd="3"), Split.MODEL, {"m": "c1"}),
        "tokens": series.tokens(found, None),
        "errors": series.errors(found),
        "latency": series.latency(found),
        "nothing": series.cost(made_summary(WINDOW), None, Split.MODEL, {}),
    }


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  # Our own.


@pytest.mark.parametrize("name", charts())
def test_it_is_a_picture_that_says_what_it_shows(name: str) -> None:
    chart = charts()[name]

    root = parsed(svg_of(chart, "Rocket", Look.AUTO))

    texts = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith(("title", "text"))]
    assert texts[0] == f"Rocket. {chart.sentence}"
    assert f"Rocket \u00b7 {chart.heading}" in texts
    assert f"{chart.summary} \u00b7 UTC" in texts
    assert set(chart.ticks[1].labels) <= set(texts)
    assert (root.get("width"), root.get("height")) == (str(WIDTH), str(HEIGHT))


def test_bars_are_as_high_as_their_values() -> None:
    root = parsed(svg_of(charts()["cost"], "Rocket", Look.LIGHT))

    bars = [one for one in root.iter() if one.get("fill") == "var(--c1)" and one.get("stroke")]
    ticks = [one for one in root.iter() if one.get("stroke-dasharray") == "3 2"]
    assert len(bars) == 6
    assert {bar.get("height") for bar in bars} == {bars[0].get("height")}
    assert len(ticks) == 2  # One in the key, one for all buckets.
    assert float(bars[0].get("y") or 0) > 0


def test_a_line_breaks_where_there_is_nothing() -> None:
    root = parsed(svg_of(charts()["latency"], "Rocket", Look.DARK))

    [line] = [one.get("d") or "" for one in root.iter() if one.get("stroke") == "var(--accent)"]
    assert (line.count("M"), line.count("L")) == (1, 5)


def test_names_cannot_break_out_of_it() -> None:
    chart = series.cost(metrics(model=EVIL), None, Split.MODEL, {EVIL: "c1"})

    text = "".join(parsed(svg_of(chart, EVIL, Look.AUTO)).itertext())

    assert '<script>"& \U0001f600' in text
    assert "\x00" not in text


def test_colours_are_those_of_the_pages_and_follow_the_viewer_unless_asked_otherwise() -> None:
    chart = charts()["cost"]
    auto, light, dark = (svg_of(chart, "Rocket", look) for look in Look)

    assert "prefers-color-scheme:dark" in auto
    assert "#17191e" in dark
    assert "#17191e" not in light
    assert Look.parse("none-such") is Look.AUTO

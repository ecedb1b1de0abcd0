"""Charts as SVG that stands by itself."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from runtally.runs.session import Point
from runtally.usage.dimensions import MODEL
from runtally.usage.sketch import Latency
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals
from runtally.usage.window import Range, Window
from tests.summaries import Slice, made_summary
from tests.unit.charts.made import cost
from webapp.charts import costs, look, series
from webapp.charts.chart import Chart
from webapp.charts.metrics import Metric
from webapp.charts.svg import HEIGHT, WIDTH, Look, first_paint, svg_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
EVIL = '<script>"&\x00\ud800 \U0001f600'


def metrics(*, model: str = "m", usd: str = "1.5") -> Summary:
    slices = [
        Slice(bucket, "p", model, Totals(2, 1, cost_usd=Decimal(usd), input_tokens=10, output_tokens=5))
        for bucket in WINDOW.starts[3:9]
    ]
    return made_summary(WINDOW, slices, {number: Latency(100, 900) for number in range(3, 9)})


def charts() -> dict[str, Chart]:
    found = metrics()
    return {
        "cost": cost(found, metrics(usd="3"), MODEL, {"m": "c1"}),
        "tokens": series.chart(Metric.TOKENS, found, None),
        "errors": series.chart(Metric.ERRORS, found),
        "latency": series.chart(Metric.LATENCY, found),
        "nothing": cost(made_summary(WINDOW), None, MODEL, {}),
    }


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  # Our own.


@pytest.mark.parametrize("name", charts())
def test_a_picture_has_a_title_and_a_description(name: str) -> None:
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

    [bars] = [one.get("d") or "" for one in root.iter() if one.get("fill") == "var(--c1)" and one.get("stroke")]
    ticks = [one for one in root.iter() if one.get("stroke-dasharray") == "3 2"]
    heights = re.findall(r"M\S+ (\S+?)V(\S+?)H", bars)
    assert len(heights) == 6
    assert len(set(heights)) == 1
    assert float(heights[0][0]) > float(heights[0][1]) > 0
    assert len(ticks) == 2  # One in the key, one for all buckets.


def test_a_line_breaks_where_there_is_nothing() -> None:
    root = parsed(svg_of(charts()["latency"], "Rocket", Look.DARK))

    [line] = [one.get("d") or "" for one in root.iter() if one.get("stroke") == "var(--c1)"]
    assert (line.count("M"), line.count("L")) == (1, 5)


def test_what_a_page_shows_at_first_has_the_same_figures_and_texts_at_their_places() -> None:
    chart = charts()["cost"]

    root = parsed(first_paint(chart))
    values, plot, _, times = root

    assert [one.text for one in values] == list(chart.ticks[1].labels)
    assert [one.get("y") for one in values] == ["100.0%", "75.0%", "50.0%", "25.0%", "0.0%"]
    assert [one.text for one in times] == list(chart.ticks[0].labels)
    assert plot.get("preserveAspectRatio") == "none"
    [bars] = [one.get("d") or "" for one in plot if one.get("fill") == "var(--c1)"]
    assert bars.count("M") == 6


def test_a_bucket_that_is_not_over_is_hatched_from_its_top_down() -> None:
    open_ = made_summary(WINDOW, [Slice(WINDOW.starts[-1], "p", "m", Totals(1, 0, cost_usd=Decimal(2)))])
    chart = cost(open_, None, MODEL, {"m": "c1"})

    [on_page] = parsed(first_paint(chart))[2]
    in_file = [
        one for one in parsed(svg_of(chart, "Rocket", Look.AUTO)).iter() if one.get("fill") == "url(#unfinished)"
    ]

    assert on_page.get("fill") == "url(#unfinished)"
    assert float((on_page.get("y") or "").rstrip("%")) + float((on_page.get("height") or "").rstrip("%")) == 100
    assert len(in_file) == 1
    assert 'id="unfinished"' in svg_of(chart, "Rocket", Look.AUTO)


def test_names_cannot_break_out_of_it() -> None:
    chart = cost(metrics(model=EVIL), None, MODEL, {EVIL: "c1"})

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


def test_a_session_s_line_is_drawn_before_any_script_in_the_colour_that_its_key_names() -> None:
    now = datetime(2026, 7, 1, tzinfo=UTC)
    points = [Point(number=number, at=now, total_usd=Decimal(number)) for number in (1, 2, 3)]

    drawn = first_paint(costs.cost_so_far(points))

    assert f'stroke="var(--{costs.SO_FAR_SLOT})"' in drawn


def test_a_colour_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        look.variable("")

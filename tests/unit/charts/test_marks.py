"""Marks on the time axis, drawn alike by Vega and as SVG, with labels that do not touch."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from runtally.usage.dimensions import MODEL
from runtally.usage.window import Range, Window
from tests.unit.charts.made import NOW, make_summary
from webapp.charts import marks, series
from webapp.charts.marks import MAX_LABELS, MAX_MARKS, Mark, MarkKind
from webapp.charts.metrics import Metric
from webapp.charts.series import Groups
from webapp.charts.svg import Look, first_paint, svg_of

WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
DAY = timedelta(days=1)


def mark(days: float, kind: MarkKind = MarkKind.RELEASE, label: str = "v1") -> Mark:
    """A mark so many days after the window's start."""
    return Mark(WINDOW.start + days * DAY, kind, f"16 Nov: {label}", label)


def labels(*made: Mark) -> list[dict[str, Any]]:
    return [dict(row) for row in marks.rows(made, WINDOW)["labels"]]


def test_a_mark_is_placed_in_buckets_once_for_each_kind() -> None:
    rows = marks.rows([mark(1), mark(1), mark(1, MarkKind.PRICE), mark(-1)], WINDOW)

    assert rows["marks"] == [{"i": 0, "release": 1}, {"i": 4.0}, {"i": 4.0, "release": 1}]


def test_of_many_marks_the_newest_are_drawn() -> None:
    made = [mark(number / 500) for number in range(3_000)]

    rows = marks.rows(made, WINDOW)

    assert len(rows["marks"]) == MAX_MARKS
    assert rows["marks"] == marks.rows(made[-MAX_MARKS:], WINDOW)["marks"]
    chart = series.chart(Metric.COST, make_summary({0: {"large": "2"}}, latencies={0: 100}), None, None, made)
    for drawn in (svg_of(chart, "p", Look.LIGHT), first_paint(chart)):
        assert drawn.count('overflow="visible"') <= MAX_MARKS
    assert chart.payload().count('"release":1') == MAX_MARKS


def test_a_label_is_right_of_its_mark_unless_that_is_near_the_end() -> None:
    assert labels(mark(1, label="v1"), mark(6, label="v2")) == [
        {"i": 4.0, "text": "v1"},
        {"i": 24.0, "text": "v2", "before": 1},
    ]


def test_few_marks_have_labels_the_newest_first_and_none_touches_another() -> None:
    found = labels(*(mark(number * 1.2, label=f"v{number}") for number in range(6)))

    assert 1 < len(found) <= MAX_LABELS
    assert found[-1]["text"] == "v5"
    reaches = sorted((row["i"] - 6.7, row["i"]) if "before" in row else (row["i"], row["i"] + 6.7) for row in found)
    assert all(one[1] <= other[0] for one, other in pairwise(reaches))


def test_no_label_lies_across_another_mark() -> None:
    # The mark before is a day ago, which is less than a label takes of half a page.
    assert labels(mark(1, label="v1"), mark(5, label="v2"), mark(6, label="v3")) == [
        {"i": 4.0, "text": "v1"},
        {"i": 20.0, "text": "v2", "before": 1},
    ]


def test_a_long_label_is_cut() -> None:
    assert labels(mark(1, label="0123456789abcdef"))[0]["text"] == "012345678\u2026"


def test_marks_are_counted_by_kind() -> None:
    assert marks.in_words([mark(1), mark(2), mark(2, MarkKind.PRICE)]) == "1 price change, 2 releases"


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("groups", [None, Groups(MODEL, {"large": "c1"})], ids=["whole", "grouped"])
def test_every_chart_draws_and_tells_its_marks(metric: Metric, groups: Groups | None) -> None:
    summary = make_summary({0: {"large": "2"}}, latencies={0: 100})
    marked = (mark(1, label="<v1>"), mark(4, MarkKind.PRICE, "price"))

    chart = series.chart(metric, summary if groups is None else summary.grouped_by(MODEL), None, groups, marked)

    assert chart.sentence.endswith("Marked: 1 price change, 1 release.")
    assert '"marks":[{"i":4.0,"release":1},{"i":16.0}]' in chart.payload()
    for drawn in (svg_of(chart, "p", Look.LIGHT), first_paint(chart)):
        assert drawn.count('overflow="visible"') == 2
        assert "&lt;v1&gt;</text>" in drawn
        assert "price</text>" in drawn

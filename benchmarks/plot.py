"""The plot of rates and times against the number of stored runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

import altair as alt

from benchmarks.rows.volumes import Size

WIDTH, HEIGHT = 360, 240
NAMES = {"single": "single runs", "batch": "batches of 100"}


class Value(TypedDict):
    """One point of a line."""

    stored: int
    name: str
    low: float
    middle: float
    high: float


def write(sizes: Sequence[Size], path: Path) -> bool:
    """Whether there is anything to draw: a line needs two sizes."""
    drawn = [
        _lines(list(values), title)
        for values, title in (
            (_rates(sizes), "ingest, runs a second (median, min-max)"),
            (_times(sizes), "GET /api/metrics, p95 of the server's time, ms"),
        )
    ]
    charts = [chart for chart in drawn if chart is not None]
    if len(sizes) <= 1 or not charts:
        return False
    alt.hconcat(*charts).resolve_scale(color="independent").configure_view(strokeOpacity=0).configure_title(
        anchor="start"
    ).configure(background="white", font="system-ui, sans-serif").save(path)
    return True


def _lines(values: list[Value], title: str) -> alt.LayerChart | alt.FacetChart | None:
    if not values:
        return None
    x = (
        alt.X("stored:Q", title="stored runs")
        .scale(type="log", nice=False, padding=24)
        .axis(format="~s", values=sorted({value["stored"] for value in values}))
    )
    base = alt.Chart(alt.InlineData(values), width=WIDTH, height=HEIGHT, title=title).encode(
        x=x, color=alt.Color("name:N", title=None).legend(orient="bottom")
    )
    y = alt.Y("middle:Q", title=None).scale(zero=True).axis(format="~s")
    return alt.layer(base.mark_line(point=True).encode(y=y), base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q"))


def _rates(sizes: Sequence[Size]) -> Iterator[Value]:
    for size in sizes:
        for name, found in size.ingest.items():
            yield _value(size.runs, NAMES[name], found.full.values)


def _times(sizes: Sequence[Size]) -> Iterator[Value]:
    for size in sizes:
        for name, found in size.metrics.items():
            yield _value(size.runs, name, found.values)


def _value(stored: int, name: str, values: Sequence[float]) -> Value:
    ordered = sorted(values)
    return {
        "stored": stored, "name": name, "low": ordered[0], "middle": ordered[len(ordered) // 2], "high": ordered[-1],
    }  # fmt: skip

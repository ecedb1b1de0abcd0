"""Build the Vega specs of `specs` with Altair, which validates them, and print them. One takes 40 ms, the import far longer.

A spec only draws: x counts buckets, and `axes` and the builders choose places and labels. Colours are CSS variables, so
that one spec serves both themes; the size is that of the box it is drawn into.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import altair as alt

from webapp.charts import look
from webapp.charts.look import BAD, INPUT, OTHER, OUTPUT, SLOTS, WARN, Stroke, variable
from webapp.charts.specs import ANY_SLOT

# More than any axis has; with fewer, Vega leaves out every other of the ticks that it is given.
_ALL_TICKS = 50
_FONT = "Geist, system-ui, sans-serif"
# What a request puts in. The values here only have the right types.
_PARAMETERS: Mapping[str, object] = {"top": 1, "ys": [0], "y_labels": [""], "ends": [0, 1], "xs": [0], "x_labels": [""]}
_THEME: dict[str, Any] = {
    "aria": False,  # The box speaks for the drawing.
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {"labelFontSize": look.TEXT_SIZE, "labelColor": variable(look.LABEL), "title": None},
    "axisX": {"grid": False, "domainColor": "var(--border)", "tickColor": "var(--border)", "labelPadding": 5},
    "axisY": {"gridColor": variable(look.GRID), "domain": False, "ticks": False, "labelPadding": look.VALUE_GAP},
    "autosize": {"type": "fit", "contains": "padding", "resize": True},
}


def main() -> None:
    """Print every spec by its kind, as JSON."""
    built = {
        "bars": bars(),
        "line": line(ANY_SLOT),
        "lines": lines(),
    }
    try:
        sys.stdout.write(_json(built))
        sys.stdout.flush()
    except BrokenPipeError:
        # The worker that asked has ended; Python would complain once more when it closes the pipe.
        os._exit(0)


def bars() -> str:
    segments = (
        _layer("segments")
        .transform_calculate(**_reach(look.BAR))
        .mark_rect(**_drawn(look.SEGMENT_RIM))
        .encode(
            x=_x("a"),
            x2="b:Q",
            y=_y("y0"),
            y2="y1:Q",
            fill=alt.Fill("slot:N", legend=None, scale=_COLOURS),
        )
    )
    # What is not over yet can't be compared, and looks it.
    hatched = (
        _layer("open")
        .transform_calculate(**_reach(look.BAR))
        .mark_rect(fill=f"url(#{look.PATTERN})")
        .encode(x=_x("a"), x2="b:Q", y=_y("y"), y2=alt.datum(0))
    )
    previous = _layer("previous").transform_calculate(**_reach(look.TICK)).encode(x="a:Q", x2="b:Q", y="y:Q")
    rim = previous.mark_rule(**_drawn(look.PREVIOUS_RIM))
    dashes = previous.mark_rule(**_drawn(look.PREVIOUS))
    return _spec(segments, hatched, rim, dashes, *_marks(), _pointer(_hovered()))


def line(slot: str) -> str:
    return _lines(lambda _: alt.value(variable(slot)))


def lines() -> str:
    return _lines(lambda channel: channel("slot:N", legend=None, scale=_COLOURS))


def _lines(paint: Callable[[Any], Any]) -> str:
    """Draw points as lines; `paint` returns what a channel of colour is encoded by."""
    hovered = _hovered()
    stroke, fill = paint(alt.Stroke), paint(alt.Fill)
    hollow = alt.condition("datum.open", alt.value(variable(look.SURFACE)), fill)
    points = _layer("points").transform_calculate(x="datum.i + 0.5", past="datum.open ? null : datum.y")
    round_: dict[str, Any] = {"strokeJoin": "round", "strokeCap": "round"}
    past = points.mark_line(**_drawn(look.LINE), **round_, invalid="break-paths-filter-domains").encode(
        x=_x("x"), y=_y("past"), stroke=stroke
    )
    known = points.transform_filter("isValid(datum.y)").encode(x=_x("x"), y=_y("y"))
    tail = known.transform_filter("datum.tail").mark_line(**_drawn(look.TAIL), **round_).encode(stroke=stroke)
    dot = known.transform_filter("datum.alone").mark_circle(strokeWidth=1.5, size=look.POINT_SIZE**2)
    alone = dot.encode(fill=hollow, stroke=stroke, opacity=alt.value(1))
    found = known.mark_circle(size=56, stroke="var(--surface)", strokeWidth=2).encode(
        fill=fill, opacity=alt.condition(hovered, alt.value(1), alt.value(0))
    )
    return _spec(past, tail, alone, *_marks(), found, _pointer(hovered))


def _marks() -> Iterator[alt.Chart]:
    """A line and a flag at each mark, and the labels of some."""

    def by_kind(release: str, price: str) -> Any:  # noqa: ANN401  # A condition of Altair.
        return alt.condition("datum.release", alt.value(release), alt.value(price))

    colour = by_kind(variable(look.RELEASE.colour), variable(look.MARK.colour))
    marks = _layer("marks").encode(x=_x("i"))
    yield marks.mark_rule(strokeWidth=look.MARK.width, strokeDash=list(look.MARK.dash)).encode(stroke=colour)
    flag = marks.mark_point(filled=True, size=look.FLAG_SIZE, opacity=1, strokeWidth=0)
    yield flag.encode(y=alt.value(look.FLAG_Y), shape=by_kind("diamond", "triangle-down"), fill=colour)
    for which, align, gap in (("!datum.before", "left", look.LABEL_GAP), ("datum.before", "right", -look.LABEL_GAP)):
        labels = _layer("labels").transform_filter(which).encode(x=_x("i"), y=alt.value(look.FLAG_Y), text="text:N")
        placed: dict[str, Any] = {"align": align, "baseline": "middle", "dx": gap, "fontSize": look.LABEL_SIZE}
        halo: dict[str, Any] = {
            "stroke": variable(look.HALO.colour),
            "strokeWidth": look.HALO.width,
            "strokeJoin": "round",
        }
        yield labels.mark_text(**placed, **halo)
        yield labels.mark_text(**placed, fill=variable("text2"))


_FILLS = (*SLOTS, INPUT, OUTPUT, OTHER, WARN, BAD)
_COLOURS = alt.Scale(domain=_FILLS, range=[variable(slot) for slot in _FILLS])


def _drawn(stroke: Stroke) -> dict[str, Any]:
    found: dict[str, Any] = {"strokeWidth": stroke.width}
    if stroke.dash:
        found["strokeDash"] = list(stroke.dash)
    return found | ({"stroke": variable(stroke.colour)} if stroke.colour else {})


def _layer(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name))


def _reach(edges: tuple[float, float]) -> dict[str, str]:
    left, right = edges
    return {"a": f"datum.i + {left}", "b": f"datum.i + {right}"}


def _x(field: str) -> alt.X:
    axis = alt.Axis(
        grid=False,
        values=alt.ExprRef("xs"),
        tickCount=_ALL_TICKS,
        labelExpr="x_labels[indexof(xs, datum.value)]",
        labelFlush=False,
        labelOverlap="parity",
        labelSeparation=look.TIME_GAP,
    )
    return alt.X(f"{field}:Q", axis=axis, scale=alt.Scale(domain=alt.ExprRef("ends"), nice=False, zero=False))


def _y(field: str) -> alt.Y:
    axis = alt.Axis(
        grid=True,
        labelLimit=140,
        values=alt.ExprRef("ys"),
        tickCount=_ALL_TICKS,
        labelExpr="y_labels[indexof(ys, datum.value)]",
        labelOverlap=False,
    )
    scale = alt.Scale(domainMin=alt.ExprRef("0"), domainMax=alt.ExprRef("top"), zero=False, nice=False)
    return alt.Y(f"{field}:Q", axis=axis, scale=scale)


def _hovered() -> alt.Parameter:
    return alt.selection_point(name="hovered", fields=["i"], on="pointerover", clear="pointerout", empty=False)


def _pointer(hovered: alt.Parameter) -> alt.Chart:
    """A column over each bucket (i): what the pointer hits, whatever is drawn below it; the one hit is shaded."""
    chart: alt.Chart = (
        _layer("buckets")
        # Altair's own names differ from process to process, and the same chart should be the same bytes.
        .properties(name="pointer")
        .transform_calculate(b="datum.i + 1")
        .mark_rect(fill="var(--text)", tooltip=alt.TooltipContent("data"))
        .encode(
            x="i:Q",
            x2="b:Q",
            y=alt.value(0),
            y2=alt.value("height"),
            opacity=alt.condition(hovered, alt.value(0.06), alt.value(0)),
        )
        .add_params(hovered)
    )
    return chart


def _spec(*layers: alt.Chart) -> str:
    parameters = [alt.param(name=name, value=value) for name, value in _PARAMETERS.items()]
    chart = (
        alt.layer(*layers)
        .properties(
            width=600, height=200, background="transparent", padding={"top": 1, "right": 2, "bottom": 0, "left": 0}
        )
        .add_params(*parameters)
        .configure(**_THEME)
    )
    spec = chart.to_dict()
    selections = [parameter for parameter in spec.pop("params") if parameter["name"] not in _PARAMETERS]
    return f'{_json(spec)[:-1]},"params":[' + "".join(f"{_json(selection)}," for selection in selections)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()

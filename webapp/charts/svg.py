"""Draw charts as SVG from the rows that Vega draws, for embedded charts and the first paint of a page. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import pairwise

from markupsafe import Markup, escape
from msgspec import Struct

from runtally.experiments.text_width import text_width
from runtally.files import ROOT
from webapp import zone
from webapp.charts import look
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.look import BAD, INPUT, OTHER, OUTPUT, SLOTS, WARN, Stroke, variable
from webapp.charts.specs import Rows

WIDTH, HEIGHT = 720, 300
_PAD = 16
_RIGHT = WIDTH - _PAD
_HEADING_Y, _SUMMARY_Y, _KEY_Y = 27, 46, 68
_KEY_LINE = 18
_AXIS_HEIGHT = 26
# What is stretched to the size of its box is drawn in a square of so many units.
_WHOLE = 1000
_FONT = f'font-family="system-ui,-apple-system,Segoe UI,Roboto,sans-serif" font-size="{look.TEXT_SIZE}"'
# Names may hold what XML cannot.
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\);")
_USED = ("surface", "border", "grid", "text", "text2", "text3", "accent", WARN, BAD, *SLOTS, INPUT, OUTPUT, OTHER)


class Look(StrEnum):
    """Colours: those that the viewer prefers, or one kind whatever they prefer."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"

    @classmethod
    def parse(cls, text: str | None) -> "Look":
        return cls(text) if text in set(cls) else cls.AUTO


class _Plot(Struct, frozen=True):
    """The places of buckets and values."""

    left: float
    right: float
    top: float
    bottom: float
    buckets: float
    highest: float

    def x(self, place: float) -> float:
        return round(self.left + (self.right - self.left) * place / self.buckets, 1)

    def y(self, value: float) -> float:
        return round(self.bottom - (self.bottom - self.top) * value / self.highest, 1)


def svg_of(chart: Chart, name: str, colours: Look) -> str:
    """The chart of whatever has this name."""
    key = tuple(_key(chart))
    plot = _plot(chart, key)
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    frame = f'x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"'
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {_FONT}>',
        f"<title>{_escaped(f'{name}. {chart.sentence}')}</title>",
        f"<style>{_style(colours)}</style><defs>{look.HATCH}</defs>",
        f'<rect {frame} fill="var(--surface)" stroke="var(--border)"/>',
        _text(f"{name} \u00b7 {chart.heading}", _PAD, _HEADING_Y, 'font-size="14" font-weight="600"', "text"),
        _text(f"{chart.summary} \u00b7 {zone.words()}", _PAD, _SUMMARY_Y, "", "text2"),
        *key,
        _grid(chart.ticks[1], plot),
        *_labels(chart.ticks, plot),
        *_drawn(chart, plot),
        *_hatched(chart, plot),
        *_flags(chart, lambda place: f"{plot.x(place)}", plot.top),
        "</svg>",
    )
    return "".join(parts)


def first_paint(chart: Chart) -> Markup:
    """Draw the plot for a page, as large as its box; it is shown until, or unless, a script draws the chart.

    The drawing is stretched, but not its text, which is placed at percentages of height and width. Empty for the few
    charts that are neither bars nor a line by buckets.
    """
    if not {"segments", "points"} & chart.datasets.keys():
        return Markup()
    times, values = chart.ticks
    width = len(chart.tips)
    plot = _Plot(0, _WHOLE, 0, _WHOLE, width, values.values[-1])
    share = _Plot(0, 100, 0, 100, width, values.values[-1])
    column = max(text_width(label, look.TEXT_SIZE) for label in values.labels) + look.VALUE_GAP
    names = "".join(
        f'<text x="100%" y="{share.y(value)}%" dx="-{look.VALUE_GAP}" dy=".32em">{_escaped(label)}</text>'
        for value, label in zip(values.values, values.labels, strict=True)
    )
    below = "".join(
        f'<text x="{share.x(place)}%" y="19">{_escaped(label)}</text>'
        for place, label in zip(times.values, times.labels, strict=True)
    )
    hatched = "".join(
        f'<rect x="{share.x(row["i"] + look.BAR[0])}%" width="{share.x(look.BAR[1] - look.BAR[0])}%" '
        f'y="{share.y(row["y"])}%" height="{100 - share.y(row["y"])}%" fill="url(#{look.PATTERN})"/>'
        for row in _numbers(chart.datasets.get("open", ()))
    )
    flags = "".join(_flags(chart, lambda place: f"{share.x(place)}%", 0))
    drawn = "".join((_grid(values, plot), *_drawn(chart, plot)))
    return Markup(  # noqa: S704  # Texts are escaped above.
        f'<div class="paint" aria-hidden="true">'
        f'<svg class="paint-values" width="{column:.0f}">{names}</svg>'
        f'<svg class="paint-plot" viewBox="0 0 {_WHOLE} {_WHOLE}" preserveAspectRatio="none">{drawn}</svg>'
        f'<svg class="paint-plot">{hatched}{flags}</svg>'
        f'<svg class="paint-times times-{_room(times, share, column)}">{below}</svg></div>'
    )


def _room(times: Ticks, share: _Plot, column: float) -> int:
    """Return the width of the drawing in which all names of times have room; the style sheet hides every second one below it."""
    places = [share.x(place) / 100 for place in times.values]
    sizes = [text_width(label, look.TEXT_SIZE) for label in times.labels]
    needed = [
        ((left + right) / 2 + look.TIME_GAP) / (after - before)
        for (before, left), (after, right) in pairwise(zip(places, sizes, strict=True))
    ]
    return next((width for width in look.TIME_WIDTHS if width >= max(needed, default=0) + column), look.TIME_WIDTHS[-1])


def _plot(chart: Chart, key: tuple[str, ...]) -> _Plot:
    values = chart.ticks[1]
    left = _PAD + max(text_width(label, look.TEXT_SIZE) for label in values.labels) + look.VALUE_GAP
    lines = 1 + max((int(line) for line in re.findall(r'data-line="(\d+)"', "".join(key))), default=-1)
    top = _SUMMARY_Y + 18 + lines * _KEY_LINE
    return _Plot(left, _RIGHT, top, HEIGHT - _AXIS_HEIGHT - 4, len(chart.tips), values.values[-1])


def _key(chart: Chart) -> Iterator[str]:
    """Return the key: the colours with their names, in lines."""
    entries = [*chart.key, *([KeyEntry(chart.previous_name, "previous")] if chart.has_previous else [])]
    x, line = float(_PAD), 0
    for entry in entries:
        width = 16 + text_width(entry.name, look.TEXT_SIZE) + 14
        if x + width > WIDTH and x > _PAD:
            x, line = float(_PAD), line + 1
        y = _KEY_Y + line * _KEY_LINE
        if entry.slot == "previous":
            mark = f'<path d="M{x:.1f} {y - 4}h11" stroke="var(--text)" stroke-width="1.5" stroke-dasharray="3 2"/>'
        else:
            mark = f'<rect x="{x:.1f}" y="{y - 9}" width="9" height="9" rx="2.5" fill="{variable(entry.slot)}"/>'
        yield f'<g data-line="{line}">{mark}{_text(entry.name, x + 16, y, "", "text2")}</g>'
        x += width


def _grid(values: Ticks, plot: _Plot) -> str:
    lines = "".join(f"M{plot.left:.1f} {plot.y(value)}H{plot.right:.1f}" for value in values.values)
    return _path(lines, Stroke(1, colour=look.GRID))


def _labels(ticks: tuple[Ticks, Ticks], plot: _Plot) -> Iterator[str]:
    times, values = ticks
    for value, label in zip(values.values, values.labels, strict=True):
        yield _text(label, plot.left - look.VALUE_GAP, plot.y(value) + 4, 'text-anchor="end"', look.LABEL)
    free_from = 0.0
    for place, label in zip(times.values, times.labels, strict=True):
        half = text_width(label, look.TEXT_SIZE) / 2
        x = plot.x(place)
        if x - half < free_from or x + half > WIDTH:
            continue
        free_from = x + half + 10
        yield _text(label, x, plot.bottom + 19, 'text-anchor="middle"', look.LABEL)


def _drawn(chart: Chart, plot: _Plot) -> Iterator[str]:
    datasets = chart.datasets
    if "segments" in datasets:
        yield from _bars(datasets, plot)
    elif "points" in datasets:
        lines: dict[str, list[Mapping[str, object]]] = {}
        for point in datasets["points"]:
            lines.setdefault(str(point.get("slot") or chart.spec.slot), []).append(point)
        for slot, points in lines.items():
            yield from _line(points, slot, plot)
    for row in _numbers(datasets.get("marks", ())):
        yield _path(f"M{plot.x(row['i'])} {plot.top}V{plot.bottom}", look.RELEASE if "release" in row else look.MARK)


def _flags(chart: Chart, x: Callable[[float], str], top: float) -> Iterator[str]:
    """The flags and labels of marks, which are not stretched; x returns where a place is, in units or percent."""
    r, y = look.FLAG_SIZE**0.5 / 2, top + look.FLAG_Y
    h = r * 3**0.5 / 2
    for row in _numbers(chart.datasets.get("marks", ())):
        shape = (
            f"M-{r:.2f} 0L0-{r:.2f} {r:.2f} 0 0 {r:.2f}z"
            if "release" in row
            else f"M0 {h:.2f}L-{r:.2f}-{h:.2f}H{r:.2f}z"
        )
        colour = look.RELEASE.colour if "release" in row else look.MARK.colour
        yield f'<svg x="{x(row["i"])}" y="{y:g}" overflow="visible"><path d="{shape}" fill="{variable(colour)}"/></svg>'
    halo = f'stroke="{variable(look.HALO.colour)}" stroke-width="{look.HALO.width:g}" stroke-linejoin="round"'
    for label in chart.datasets.get("labels", ()):
        anchor, dx = ("end", -look.LABEL_GAP) if "before" in label else ("start", look.LABEL_GAP)
        yield (
            f'<text x="{x(float(str(label["i"])))}" y="{y:g}" dx="{dx}" dy=".32em" text-anchor="{anchor}" '
            f'class="label" font-size="{look.LABEL_SIZE}" paint-order="stroke" {halo} fill="{variable("text2")}">'
            f"{_escaped(str(label['text']))}</text>"
        )


def _bars(datasets: Mapping[str, Rows], plot: _Plot) -> Iterator[str]:
    bars: dict[str, str] = {}
    for row in _numbers(datasets["segments"]):
        left, right = (plot.x(row["i"] + edge) for edge in look.BAR)
        top, bottom = plot.y(row["y1"]), plot.y(row["y0"])
        slot = str(row["slot"])
        bars[slot] = f"{bars.get(slot, '')}M{left} {bottom}V{min(top, bottom - 0.5):.1f}H{right}V{bottom}z"
    for slot, path in bars.items():
        yield _path(path, look.SEGMENT_RIM, f'fill="{variable(slot)}"')
    ticks = ""
    for row in _numbers(datasets["previous"]):
        left, right = (plot.x(row["i"] + edge) for edge in look.TICK)
        ticks += f"M{left} {plot.y(row['y'])}H{right}"
    if ticks:
        yield _path(ticks, look.PREVIOUS_RIM)
        yield _path(ticks, look.PREVIOUS)


def _hatched(chart: Chart, plot: _Plot) -> Iterator[str]:
    for row in _numbers(chart.datasets.get("open", ())):
        left, right = (plot.x(row["i"] + edge) for edge in look.BAR)
        yield f'<path d="M{left} {plot.y(0)}V{plot.y(row["y"])}H{right}V{plot.y(0)}z" fill="url(#{look.PATTERN})"/>'


def _line(points: Rows, slot: str, plot: _Plot) -> Iterator[str]:
    """Broken where there is no value, dashed where the last bucket is not over; a point without neighbours is a dot."""
    whole, tail, alone = "", "", ""
    is_joined = False
    for row in _numbers(points):
        if row["y"] is None:
            is_joined = False
            continue
        at = f"{plot.x(row['i'] + 0.5)} {plot.y(row['y'])}"
        if row.get("alone"):
            alone += f"M{at}h0"
        if not row.get("open"):
            whole += f"{'L' if is_joined else 'M'}{at}"
        if row.get("tail"):
            tail += f"{'L' if tail else 'M'}{at}"
        is_joined = True
    round_ = f'stroke="{variable(slot)}" stroke-linejoin="round" stroke-linecap="round"'
    if whole:
        yield _path(whole, look.LINE, round_)
    if tail.count("L"):
        yield _path(tail, look.TAIL, round_)
    if alone:
        yield _path(alone, Stroke(look.POINT_SIZE), round_)


def _path(d: str, stroke: Stroke, attributes: str = "") -> str:
    """A path whose stroke is as wide as it says, however the drawing is stretched."""
    filled = attributes if "fill=" in attributes else f'fill="none" {attributes}'
    coloured = f' stroke="{variable(stroke.colour)}"' if stroke.colour else ""
    dashed = f' stroke-dasharray="{" ".join(f"{length:g}" for length in stroke.dash)}"' if stroke.dash else ""
    return (
        f'<path d="{d}" {filled}{coloured} stroke-width="{stroke.width:g}"{dashed} vector-effect="non-scaling-stroke"/>'
    )


def _numbers(rows: Iterable[Mapping[str, object]]) -> Iterable[Mapping[str, float]]:
    """Type the values of rows as numbers: all that are drawn are, except the name of a colour."""
    return rows  # type: ignore[return-value]  # Rows say `object`, because they become JSON.


def _text(text: str, x: float, y: float, attributes: str, colour: str) -> str:
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" {attributes} fill="{variable(colour)}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return str(escape(_NO_XML.sub("", text)))


@cache
def _style(look: Look) -> str:
    light, dark = (";".join(f"--{name}:{pair[number]}" for name, pair in _colours().items()) for number in (0, 1))
    match look:
        case Look.LIGHT:
            return f":root{{{light}}}"
        case Look.DARK:
            return f":root{{{dark}}}"
        case Look.AUTO:
            return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


@cache
def _colours() -> dict[str, tuple[str, str]]:
    """Light and dark, as the pages have them."""
    found = {name: (light, dark) for name, light, dark in _COLOUR.findall((ROOT / "static/css/tokens.css").read_text())}
    return {name: found[name] for name in _USED}

"""A chart as one SVG that stands by itself, to be shown elsewhere. Drawn by hand from the rows that Vega draws. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from markupsafe import escape

from runtally.experiments.text_width import text_width
from runtally.files import ROOT
from webapp import zone
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart, KeyEntry

WIDTH, HEIGHT = 720, 300
_PAD = 16
_RIGHT = WIDTH - _PAD
_HEADING_Y, _SUMMARY_Y, _KEY_Y = 27, 46, 68
_KEY_LINE = 18
_TEXT_SIZE = 12
_AXIS_HEIGHT = 26
# Edges of bars, and of the ticks that reach out of them, as parts of a bucket.
_BAR, _TICK = (0.07, 0.93), (0.02, 0.98)
_UNFINISHED = 0.45
_FONT = f'font-family="system-ui,-apple-system,Segoe UI,Roboto,sans-serif" font-size="{_TEXT_SIZE}"'
# Names may hold what XML cannot.
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\);")
_USED = (
    "surface",
    "border",
    "grid",
    "text",
    "text2",
    "text3",
    "accent",
    "warn",
    "bad",
    "c1",
    "c2",
    "c3",
    "c4",
    "c5",
    "other",
)


class Look(StrEnum):
    """Colours: those that the viewer prefers, or one kind whatever they prefer."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"

    @classmethod
    def parse(cls, text: str | None) -> "Look":
        return cls(text) if text in set(cls) else cls.AUTO


@dataclass(frozen=True, slots=True)
class _Plot:
    """Where buckets and values are, in pixels."""

    left: float
    top: float
    bottom: float
    buckets: int
    highest: float

    def x(self, place: float) -> float:
        return round(self.left + (_RIGHT - self.left) * place / self.buckets, 1)

    def y(self, value: float) -> float:
        return round(self.bottom - (self.bottom - self.top) * value / self.highest, 1)


def svg_of(chart: Chart, name: str, look: Look) -> str:
    """The chart of whatever has this name."""
    key = tuple(_key(chart))
    plot = _plot(chart, key)
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    frame = f'x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"'
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {_FONT}>',
        f"<title>{_escaped(f'{name}. {chart.sentence}')}</title>",
        f"<style>{_style(look)}</style>",
        f'<rect {frame} fill="var(--surface)" stroke="var(--border)"/>',
        _text(f"{name} \u00b7 {chart.heading}", _PAD, _HEADING_Y, 'font-size="14" font-weight="600"', "text"),
        _text(f"{chart.summary} \u00b7 {zone.words()}", _PAD, _SUMMARY_Y, "", "text2"),
        *key,
        *_axes(chart.ticks, plot),
        *(_bars(chart, plot) if "segments" in chart.datasets else _line(chart, plot)),
        "</svg>",
    )
    return "".join(parts)


def _plot(chart: Chart, key: tuple[str, ...]) -> _Plot:
    values = chart.ticks[1]
    left = _PAD + max(text_width(label, _TEXT_SIZE) for label in values.labels) + 8
    lines = 1 + max((int(line) for line in re.findall(r'data-line="(\d+)"', "".join(key))), default=-1)
    top = _SUMMARY_Y + 18 + lines * _KEY_LINE
    return _Plot(left, top, HEIGHT - _AXIS_HEIGHT - 4, len(chart.tips), values.values[-1])


def _key(chart: Chart) -> Iterator[str]:
    """Names beside their colours, line by line."""
    entries = [*chart.key, *([KeyEntry(chart.previous_name, "previous")] if chart.has_previous else [])]
    x, line = float(_PAD), 0
    for entry in entries:
        width = 16 + text_width(entry.name, _TEXT_SIZE) + 14
        if x + width > WIDTH and x > _PAD:
            x, line = float(_PAD), line + 1
        y = _KEY_Y + line * _KEY_LINE
        if entry.slot == "previous":
            mark = f'<path d="M{x:.1f} {y - 4}h11" stroke="var(--text)" stroke-width="1.5" stroke-dasharray="3 2"/>'
        else:
            mark = f'<rect x="{x:.1f}" y="{y - 9}" width="9" height="9" rx="2.5" fill="var(--{entry.slot})"/>'
        yield f'<g data-line="{line}">{mark}{_text(entry.name, x + 16, y, "", "text2")}</g>'
        x += width


def _axes(ticks: tuple[Ticks, Ticks], plot: _Plot) -> Iterator[str]:
    times, values = ticks
    for value, label in zip(values.values, values.labels, strict=True):
        y = plot.y(value)
        yield f'<path d="M{plot.left:.1f} {y}H{_RIGHT}" stroke="var(--grid)"/>'
        yield _text(label, plot.left - 8, y + 4, 'text-anchor="end"', "text3")
    free_from = 0.0
    for place, label in zip(times.values, times.labels, strict=True):
        half = text_width(label, _TEXT_SIZE) / 2
        x = plot.x(place)
        if x - half < free_from or x + half > WIDTH:
            continue
        free_from = x + half + 10
        yield _text(label, x, plot.bottom + 19, 'text-anchor="middle"', "text3")


def _bars(chart: Chart, plot: _Plot) -> Iterator[str]:
    for row in _numbers(chart.datasets["segments"]):
        left, right = (plot.x(row["i"] + edge) for edge in _BAR)
        top, bottom = plot.y(row["y1"]), plot.y(row["y0"])
        faint = f' opacity="{_UNFINISHED}"' if row.get("open") else ""
        yield (
            f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{max(bottom - top, 0.5):.1f}" '
            f'fill="var(--{row["slot"]})" stroke="var(--surface)" stroke-width=".75"{faint}/>'
        )
    ticks = "".join(_tick(row, plot) for row in _numbers(chart.datasets["previous"]))
    if ticks:
        # Without a rim in the colour of the card, dark dashes are lost on dark bars.
        yield f'<path d="{ticks}" stroke="var(--surface)" stroke-width="3.5"/>'
        yield f'<path d="{ticks}" stroke="var(--text)" stroke-width="1.5" stroke-dasharray="3 2"/>'


def _tick(row: Mapping[str, float], plot: _Plot) -> str:
    left, right = (plot.x(row["i"] + edge) for edge in _TICK)
    return f"M{left} {plot.y(row['y'])}H{right}"


def _line(chart: Chart, plot: _Plot) -> Iterator[str]:
    """Broken where there is no value, paler where the last bucket is not over; a point without neighbours is a dot."""
    colour = f"var(--{chart.tip_rows[0].slot})"
    whole, tail = "", ""
    is_joined = False
    for row in _numbers(chart.datasets["points"]):
        if row["y"] is None:
            is_joined = False
            continue
        at = f"{plot.x(row['i'] + 0.5)} {plot.y(row['y'])}"
        if row.get("alone"):
            yield f'<circle cx="{at.split(maxsplit=1)[0]}" cy="{at.split()[1]}" r="2.5" fill="{colour}"/>'
        if not row.get("open"):
            whole += f"{'L' if is_joined else 'M'}{at}"
        if row.get("tail"):
            tail += f"{'L' if tail else 'M'}{at}"
        is_joined = True
    for row in _numbers(chart.datasets.get("limit", ())):
        yield f'<path d="M{plot.left:.1f} {plot.y(row["y"])}H{_RIGHT}" stroke="var(--text)" stroke-dasharray="3 2"/>'
    look = f'fill="none" stroke="{colour}" stroke-width="1.75" stroke-linejoin="round" stroke-linecap="round"'
    yield f'<path d="{whole}" {look}/>' if whole else ""
    yield f'<path d="{tail}" {look} opacity="{_UNFINISHED}"/>' if tail.count("L") else ""


def _numbers(rows: Iterable[Mapping[str, object]]) -> Iterable[Mapping[str, float]]:
    """What is drawn of a row are numbers, but for the name of a colour."""
    return rows  # type: ignore[return-value]  # Rows say `object`, because they become JSON.


def _text(text: str, x: float, y: float, attributes: str, colour: str) -> str:
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" {attributes} fill="var(--{colour})">{_escaped(text)}</text>'


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

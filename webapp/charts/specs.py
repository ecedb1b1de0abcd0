"""Vega-Lite specs that Altair builds once; a request fills in figures only.

Altair is imported once the first page was answered, not by the start: a worker that only takes runs in is spared a sixth of
its memory. Pages say what a chart shows; only who draws one waits.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from msgspec import Struct

from webapp.charts.axes import Ticks

_VEGA = "webapp.charts.vega"

Rows = Sequence[Mapping[str, object]]


class Spec(Struct, frozen=True):
    """A spec without its figures, built when it is first filled."""

    build: Callable[[Any], str]
    """Given the module that has Altair: JSON text up to the parameters, which come last but for the rows."""

    def filled(self, width: float, x: Ticks, y: Ticks, datasets: Mapping[str, Rows]) -> str:
        """Return the spec as JSON; the horizontal axis goes from 0 to the number of buckets."""
        figures = {
            "top": y.values[-1],
            "ys": y.values,
            "y_labels": y.labels,
            "ends": [0, width],
            "xs": x.values,
            "x_labels": x.labels,
        }
        parameters = [{"name": name, "value": value} for name, value in figures.items()]
        # JSON that is served as JSON needs no more escaping than this, whatever a model is called.
        return f'{_head(self)}{_json(parameters)[1:]},"datasets":{_json(datasets)}}}'


def begin() -> None:
    """Import Altair in the background, once: the import takes as long as storing hundreds of runs."""
    _importing()


def are_ready() -> bool:
    """Return whether a chart can be drawn without waiting for Altair, and start its import if needed."""
    return not _importing().is_alive()


async def prepare() -> None:
    """Before a chart is drawn: until Altair is there."""
    importing = _importing()
    if importing.is_alive():
        await asyncio.to_thread(importing.join)


@cache
def bars() -> Spec:
    """Stacked segments (i, y0, y1, slot), a hatch over a bar (open: i, y), a dashed tick (previous: i, y) over each, and marks.

    Like lines it has marks (i, release) on the time axis, and labels (i, text, before) at some of them.
    """
    return Spec(lambda vega: vega.bars())


@cache
def line(slot: str, *, has_limit: bool = False) -> Spec:
    """A line through the middles of the buckets (i, y), broken where y is null; perhaps a dashed one across at a limit (y).

    What leads to the bucket that is not over (`tail`, and `open` itself) is dashed. A point that has no neighbour to be
    joined with (`alone`) is a dot, and hollow where its bucket is not over.
    """
    return Spec(lambda vega: vega.line(slot, has_limit=has_limit))


@cache
def lines() -> Spec:
    """Several such lines, each in the colour of its points (i, y, slot)."""
    return Spec(lambda vega: vega.lines())


@cache
def intervals() -> Spec:
    """A dot (x, slot) on each row (i), on a bar from a to b: an estimate, and where the true figure may be."""
    return Spec(lambda vega: vega.intervals())


@cache
def burn_down() -> Spec:
    """Return the spec of a burn-down: a line (left: x, y), a dot for now, a forecast line, and a straight line (even).

    All may go below zero, where another line lies (nothing).
    """
    return Spec(lambda vega: vega.burn_down())


@cache
def _head(spec: Spec) -> str:
    return spec.build(import_module(_VEGA))


@cache
def _importing() -> threading.Thread:
    thread = threading.Thread(target=import_module, args=(_VEGA,), name="import-altair", daemon=True)
    thread.start()
    return thread


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

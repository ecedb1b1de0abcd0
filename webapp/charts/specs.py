"""Vega-Lite specs that Altair builds once; a request fills in figures only.

They come from a process of their own, begun when the first page was answered: Altair is a quarter of a worker's memory, and
these six texts are all that is wanted of it. Pages say what a chart shows; only who draws one waits.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import Struct

from webapp.charts.axes import Ticks

ANY_SLOT = "any-slot"
"""Stands for the colour of a line, so that lines of all colours are built once."""

Rows = Sequence[Mapping[str, object]]


class Spec(Struct, frozen=True):
    """A spec without its figures."""

    kind: str
    slot: str = ""
    """The colour of a single line."""

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
        return (
            f'{built()[self.kind].replace(ANY_SLOT, self.slot)}{_json(parameters)[1:]},"datasets":{_json(datasets)}}}'
        )


def begin() -> None:
    """Have the specs built in the background, once: that takes as long as storing a thousand runs."""
    building_thread()


def are_ready() -> bool:
    """Return whether a chart can be drawn without waiting for its spec, and have them built if needed."""
    return not building_thread().is_alive()


async def prepare() -> None:
    """Before a chart is drawn: until the specs are there."""
    building = building_thread()
    if building.is_alive():
        await asyncio.to_thread(building.join)


def bars() -> Spec:
    """Stacked segments (i, y0, y1, slot), a hatch over a bar (open: i, y), a dashed tick (previous: i, y) over each, and marks.

    Like lines it has marks (i, release) on the time axis, and labels (i, text, before) at some of them.
    """
    return Spec("bars")


def line(slot: str) -> Spec:
    """A line through the middles of the buckets (i, y), broken where y is null.

    What leads to the bucket that is not over (`tail`, and `open` itself) is dashed. A point that has no neighbour to be
    joined with (`alone`) is a dot, and hollow where its bucket is not over.
    """
    return Spec("line", slot)


def lines() -> Spec:
    """Several such lines, each in the colour of its points (i, y, slot)."""
    return Spec("lines")


@cache
def built() -> Mapping[str, str]:
    """Have every spec built by `vega`, once: by kind, JSON text up to the parameters, which come last but for the rows."""
    # In a group of its own, so that Ctrl-C for the service is no traceback of its.
    command = [sys.executable, "-P", "-m", "webapp.charts.vega"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, process_group=0)  # noqa: S603  # Our own module.
    return msgspec.json.decode(done.stdout, type=dict[str, str])


@cache
def building_thread() -> threading.Thread:
    """Start the thread that waits for the specs."""
    thread = threading.Thread(target=built, name="build-charts", daemon=True)
    thread.start()
    return thread


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

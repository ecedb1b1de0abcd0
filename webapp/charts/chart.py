"""One chart in a page, and its data for the browser."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup
from msgspec import Struct

from webapp.charts import specs
from webapp.charts.axes import Ticks
from webapp.charts.drawing import Drawing, Table, Tip
from webapp.charts.marks import Mark, in_words


class KeyEntry(Struct, frozen=True):
    """A series and its colour."""

    name: str
    slot: str


@dataclass(frozen=True)
class Chart:
    """A chart: its title and table for the page, and its payload for the browser to draw.

    Without slots, for what is kept once it was asked for.
    """

    heading: str
    sentence: str
    """A description for readers who do not see it."""
    key: tuple[KeyEntry, ...]
    """Empty where the heading names the only series."""
    table: Table
    spec: specs.Spec
    draw: Callable[[], Drawing]
    tip_rows: tuple[KeyEntry, ...]
    has_previous: bool = False
    previous_name: str = ""
    marks: tuple[Mark, ...] = ()
    """The meanings of the marks on the time axis, in order."""
    cut: str = ""
    """What lies beyond the axis, in words; empty where nothing does."""
    summary: str = ""
    """The figure over the whole range, in a few words."""

    @cached_property
    def drawn(self) -> Drawing:
        return self.draw()

    @property
    def marks_in_words(self) -> str:
        """How many marks there are of each kind."""
        return in_words(self.marks)

    @property
    def ticks(self) -> tuple[Ticks, Ticks]:
        return self.drawn.ticks

    @property
    def datasets(self) -> Mapping[str, specs.Rows]:
        return self.drawn.datasets

    @property
    def tips(self) -> tuple[Tip, ...]:
        return self.drawn.tips

    @property
    def data_block(self) -> Markup | None:
        """The payload for a script element of the page; None while specs are built, when the browser asks for it later."""
        if not specs.are_ready():
            return None
        # Inside of a string this is the same text, and nothing in it can end the element.
        return Markup(self.payload().replace("<", "\\u003c"))  # noqa: S704  # As above.

    def payload(self) -> str:
        """JSON: the spec with its figures, and what the tooltip of each bucket says."""
        spec = self.spec.filled(len(self.tips), *self.ticks, self.datasets)
        rest = {
            "rows": [[row.name, row.slot] for row in self.tip_rows],
            "previous": self.previous_name,
            "tips": [tip.as_json() for tip in self.tips],
        }
        return f'{{"spec":{spec},{json.dumps(rest, separators=(",", ":"))[1:]}'

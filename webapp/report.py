"""The figures, charts and tables of reports. A table is declared by its columns, and `templates/ui/table.html` shows it.

A heading may sort its table: the query has the column, and a minus before it for the other direction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct

from webapp.charts.chart import Chart
from webapp.formats import Change

ColumnName = TypeVar("ColumnName", bound=str)
Item = TypeVar("Item")

NAME = "name"
"""The column that starts with A; all others are numbers, and start with the highest."""
_REVERSED = "-"
_LONGEST_REPEATED = 40


class Sorting(Struct, Generic[ColumnName], frozen=True):
    """A column, and whether its usual direction is reversed: numbers start with the highest, names with A."""

    column: ColumnName
    is_reversed: bool = False

    @classmethod
    def parse(cls, text: str | None, columns: Iterable[ColumnName], default: ColumnName) -> "Sorting[ColumnName]":
        """Parse a query: `runs`, or `-runs` for the reverse. Any other text gives the default."""
        name = (text or "").removeprefix(_REVERSED)
        column = next((column for column in columns if column == name), None)
        return cls(default) if column is None else cls(column, (text or "").startswith(_REVERSED))

    @staticmethod
    def mistaken(text: str | None, columns: Iterable[str]) -> str | None:
        """Return a note on an order that a query asks for and that there is not."""
        name = (text or "").removeprefix(_REVERSED)
        if not name or any(column == name for column in columns):
            return None
        shown = "".join(character for character in name if character.isprintable())[:_LONGEST_REPEATED]
        return f"Unknown sort order \u201c{shown}\u201d. Showing the default order."

    def text(self, default: ColumnName) -> str | None:
        """Return the text for a query; None for the default."""
        if self == Sorting(default):
            return None
        return f"{_REVERSED if self.is_reversed else ''}{self.column}"

    def chosen(self, column: ColumnName) -> "Sorting[ColumnName]":
        """Return the sorting after a click on the heading of a column."""
        return Sorting(column, column == self.column and not self.is_reversed)

    @property
    def is_descending(self) -> bool:
        return (self.column == NAME) is self.is_reversed

    def sorted(self, items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
        """Sort the items by what the column is sorted by. Items without a value come last either way."""
        every = [(key(item), item) for item in items]
        known = sorted((one for one in every if one[0] is not None), key=itemgetter(0), reverse=self.is_descending)
        return [item for _, item in known] + [item for value, item in every if value is None]


class SortHeading(Struct, frozen=True):
    """A heading that sorts its table."""

    id: str
    name: str
    url: str
    is_number: bool
    direction: str | None
    """The direction in ARIA's words; None if the table is sorted by another column."""


def headings_of(
    sorting: Sorting[ColumnName],
    titles: Mapping[ColumnName, str],
    url_of: Callable[[Sorting[ColumnName]], str],
) -> dict[str, SortHeading]:
    """Return a heading for each title, by the name of its column."""
    direction = "descending" if sorting.is_descending else "ascending"
    return {
        column: SortHeading(
            column,
            title,
            url_of(sorting.chosen(column)),
            column != NAME,
            direction if column == sorting.column else None,
        )
        for column, title in titles.items()
    }


R = TypeVar("R")
Title = str | SortHeading | Struct
"""A text, a heading that sorts, or what a macro of the page draws."""
_BAR_STEP, _BAR_WIDTH, _LOWEST_BAR = 4, 3, 4
_HEIGHTS = 1_000
# Formatted once: writing numbers would take longer than everything else here.
_BARS = tuple(
    f"v-{height}h{_BAR_WIDTH}v{height}z"
    for height in (max(number * 100 / _HEIGHTS, _LOWEST_BAR) for number in range(_HEIGHTS + 1))
)


class Figure(Struct, frozen=True):
    """A figure over all of a report, and what it says in other words."""

    name: str
    value: str
    note: str = ""


class ChartPart(Struct, frozen=True):
    """A chart, and where the browser gets what it draws."""

    chart: Chart
    src: str
    name: str = ""
    """Which chart it is, where a page has several."""
    narrower: tuple[str, ...] = ()
    """A link for each bucket to its time alone; none for the shortest buckets."""
    picture: str | None = None
    """The URL of the picture as one file."""


class Sparkline(Struct, frozen=True):
    """Bars in a box that is 100 high, an ornament in a row of a table: how wide it is, and their path."""

    width: int
    path: str


class Head(Struct, frozen=True, kw_only=True):
    """The name of a row, in its first column."""

    name: str
    note: str | None = None
    summary: str = ""
    """What stands for the columns that a narrow screen has no room for."""
    url: str | None = None
    style: str = ""
    """Classes of the whole row."""
    slot: str | None = None
    """The colour of its line; None where it has none."""
    length: float = 0
    """The width of its bar, in percent of the longest."""
    is_chosen: bool = False
    title: str | None = None
    """What to know of the whole row, for who points at it."""
    value: str | None = None
    """The value, to be compared; None where no filter keeps it."""
    price: str | None = None
    """What a model costs now per million tokens, and since when."""


class Cell(Struct, frozen=True, kw_only=True):
    """What a row says in a column, where that is more than a text."""

    text: str = ""
    notes: tuple[str, ...] = ()
    """Lines below the text."""
    title: str | None = None
    """The text in full, for who points at it."""
    url: str | None = None
    tone: str = ""
    """A class of this cell alone."""
    dot: str = ""
    """The tone of a mark before the text, which says that something failed."""
    aside: str = ""
    """What is read out after the text, and not shown: that it may be more, as with runs without a price."""
    at: datetime | None = None
    """The moment that the text names."""
    change: Change | None = None
    sparkline: Sparkline | None = None
    drawn: Struct | None = None
    """What a macro of the page draws instead of the text."""


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column: its title, which may sort the table, what it says of a row, and the classes of its title and its cells."""

    title: Title
    write: Callable[[R], str | Cell]
    style: str = "number fold"
    cell_style: str = ""
    """Further classes of its cells."""


class Row(Struct, frozen=True):
    """A row of a table: its name, and for each further column the classes and what it says."""

    head: Head
    cells: tuple[tuple[str, str | Cell], ...]


class Table(Struct, frozen=True):
    """A table: the title of its first column, titles and classes of the further ones, and its rows."""

    title: str | SortHeading
    columns: tuple[tuple[Title, str], ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    """The row below all others."""


def table_of(
    title: str | SortHeading,
    head: Callable[[R], Head],
    columns: Sequence[Column[R]],
    rows: Iterable[R],
    total: R | None = None,
) -> Table:
    """Write the rows of a table."""
    styles = [f"{column.style} {column.cell_style}".rstrip() for column in columns]

    def written(row: R) -> Row:
        return Row(head(row), tuple((style, column.write(row)) for column, style in zip(columns, styles, strict=True)))

    return Table(
        title,
        tuple((column.title, column.style) for column in columns),
        tuple(map(written, rows)),
        None if total is None else written(total),
    )


def sparkline_of(values: Sequence[float]) -> Sparkline:
    """Return bars, of which the highest fills the height; a low one can still be seen."""
    scale = _HEIGHTS / (max(values, default=0) or 1)
    bars = [f"M{number * _BAR_STEP} 100{_BARS[round(value * scale)]}" for number, value in enumerate(values) if value]
    return Sparkline(len(values) * _BAR_STEP, "".join(bars))

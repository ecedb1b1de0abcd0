"""Sortable tables: the column, the direction, and the links of the headings."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from operator import itemgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct

Column = TypeVar("Column", bound=StrEnum)
Item = TypeVar("Item")

_REVERSED = "-"
_LONGEST_REPEATED = 40


class Sorting(Struct, Generic[Column], frozen=True):
    """A column, and whether its usual direction is reversed: numbers start with the highest, names with A."""

    column: Column
    is_reversed: bool = False

    @classmethod
    def parse(cls, text: str | None, columns: Iterable[Column], default: Column) -> "Sorting[Column]":
        """Parse a query: `runs`, or `-runs` for the reverse. Any other text gives the default."""
        name = (text or "").removeprefix(_REVERSED)
        column = next((one for one in columns if one.value == name), None)
        return cls(default) if column is None else cls(column, (text or "").startswith(_REVERSED))

    @staticmethod
    def mistaken(text: str | None, columns: Iterable[StrEnum]) -> str | None:
        """Return a note on an order that a query asks for and that there is not."""
        name = (text or "").removeprefix(_REVERSED)
        if not name or any(one.value == name for one in columns):
            return None
        shown = "".join(one for one in name if one.isprintable())[:_LONGEST_REPEATED]
        return f"Unknown sort order \u201c{shown}\u201d. Showing the default order."

    def text(self, default: Column) -> str | None:
        """Return the text for a query; None for the default."""
        if self == Sorting(default):
            return None
        return f"{_REVERSED if self.is_reversed else ''}{self.column.value}"

    def chosen(self, column: Column) -> "Sorting[Column]":
        """Return the sorting after a click on the heading of a column."""
        return Sorting(column, column is self.column and not self.is_reversed)

    def sorted(
        self, items: Iterable[Item], keys: Mapping[Column, Callable[[Item], Any]], names: frozenset[Column]
    ) -> list[Item]:
        """Sort the items; `names` are the columns that start with A. Items without a value come last either way."""
        key, is_descending = keys[self.column], (self.column in names) is self.is_reversed
        every = [(key(item), item) for item in items]
        known = sorted((one for one in every if one[0] is not None), key=itemgetter(0), reverse=is_descending)
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
    sorting: Sorting[Column],
    titles: Mapping[Column, str],
    names: frozenset[Column],
    url_of: Callable[[Sorting[Column]], str],
) -> tuple[SortHeading, ...]:
    """Return a heading for each title; `names` are the columns that start with A."""
    return tuple(
        SortHeading(
            column.value,
            title,
            url_of(sorting.chosen(column)),
            column not in names,
            _direction(sorting, names) if column is sorting.column else None,
        )
        for column, title in titles.items()
    )


def _direction(sorting: Sorting[Column], names: frozenset[Column]) -> str:
    return "ascending" if (sorting.column in names) is not sorting.is_reversed else "descending"

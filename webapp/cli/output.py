"""Print lists, as a table for people or as JSON for programs, and the progress of long work.

Progress is a bar on a terminal and lines elsewhere, always on stderr, so that output can be piped.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Final, Self, TypeVar

import click
import msgspec

from runtally.fields import camel
from runtally.money import as_json

C = TypeVar("C", bound=Callable[..., object])
Record = dict[str, object]


def json_option(command: C) -> C:
    """Add --json to a command, which receives it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def record(**values: object) -> Record:
    """Return the values under the names that the API has for them, amounts with every digit."""
    return {camel(name): _exact(value) for name, value in values.items()}


def attributes(row: object, *names: str) -> Record:
    """Return attributes of a row for `record`, under their own names."""
    return {name: getattr(row, name) for name in names}


_ODD = re.compile(r"[^\n -~]")


def printable(text: str) -> str:
    """Return text of which no name steers the terminal: what is neither printable nor a line break as JSON escapes it."""
    return _ODD.sub(lambda odd: odd[0] if odd[0].isprintable() else json.dumps(odd[0])[1:-1], text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print printable text."""
    click.echo(printable(text), err=err)


def echo_json(value: Record | Iterable[Record]) -> None:
    """Print a record, or a list of them."""
    echo_encoded(value if isinstance(value, dict) else list(value))


def echo_encoded(value: object) -> None:
    """Print what msgspec can encode, such as an answer of the API."""
    echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def echo_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str]) -> None:
    """Print headings and rows, each column as wide as its widest cell; `numbers` are the headings to align right."""
    echo("\n".join(table(headings, list(rows), numbers=numbers)))


def echo_if_none(rows: Collection[object], said: str) -> None:
    """Print `said` to stderr if nothing was found, so that an empty list does not look like a command that failed."""
    if not rows:
        click.echo(said, err=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str]) -> list[str]:
    """Return the lines of a table."""
    cells = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def _exact(value: object) -> object:
    match value:
        case Decimal():
            return as_json(value)
        case Mapping():
            return {name: _exact(item) for name, item in value.items()}
        case _:
            return value


_PERCENT_A_LINE: Final = 10


class Progress:
    """Shows how much of the work is done; use it as a context manager around the work."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._next = 0
        # The length is known only when the work begins; until then the bar is empty.
        self._bar = (
            click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=lambda note: note)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.__exit__(kind, error, trace)

    def show(self, done: int, total: int, note: str = "") -> None:
        """Show the amount done of a total, with a note."""
        if self._bar:
            self._bar.length = max(total, 1)
            self._bar.update(done - self._bar.pos, note)
            return
        percent = 100 * done // total if total else 100
        if percent >= self._next:
            # A line for each tenth of the work.
            self._next = percent - percent % _PERCENT_A_LINE + _PERCENT_A_LINE
            click.echo(f"{self._label}: {percent} %{', ' if note else ''}{note}", err=True)


class Counter:
    """Progress of work without an end: one line that changes on a terminal, a line for each `every` elsewhere."""

    def __init__(self, label: str, every: int) -> None:
        self._label = label
        self._every = every
        self._said = 0
        self._is_terminal = sys.stderr.isatty()

    def show(self, done: int) -> None:
        if self._is_terminal:
            click.echo(f"\r{self._label}: {done:,}", nl=False, err=True)
        elif done // self._every > self._said // self._every:
            self._said = done
            click.echo(f"{self._label}: {done:,}", err=True)

    def end(self) -> None:
        """Leave the line that changes."""
        if self._is_terminal:
            click.echo(err=True)

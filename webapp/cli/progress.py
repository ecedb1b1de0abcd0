"""Show the progress of long work: a bar on a terminal, lines elsewhere; always on stderr, so that output can be piped."""

import sys
from types import TracebackType
from typing import Final, Self

import click

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

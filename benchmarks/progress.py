"""Show the progress of the benchmark: a bar on a terminal, a line for each step elsewhere; on stderr."""

import sys
import time
from types import TracebackType
from typing import Self

import click


class Progress:
    """Steps of about the same length; use it as a context manager around all of them."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._started = time.monotonic()
        self._note = ""
        self._bar = (
            click.progressbar(
                length=steps * 100, label="Benchmark", file=sys.stderr, show_eta=False, item_show_func=lambda note: note
            )
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

    def begin(self, note: str) -> None:
        """The next step begins."""
        self._note = note
        if self._bar:
            self._bar.update(0, note)
            self._bar.render_progress()
        else:
            seconds = time.monotonic() - self._started
            click.echo(f"[{seconds:5.0f} s] {self._done + 1}/{self._steps} {note}", err=True)

    def part(self, done: int, total: int) -> None:
        """Show how much of this step is done."""
        if self._bar:
            self._bar.update(self._done * 100 + 100 * done // total - self._bar.pos, self._note)

    def end(self) -> None:
        """The step is done."""
        self._done += 1
        if self._bar:
            self._bar.update(self._done * 100 - self._bar.pos, self._note)

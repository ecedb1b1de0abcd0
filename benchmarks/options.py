"""The parts of the benchmark to run, and their durations."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

ALL_ROWS = tuple(range(1, 25))
NAMED = {"otlp": 19, "cells": 21, "archive": 22, "connections": 23, "volume": 24}
ALL_SIZES = (0.1, 1.0, 10.0, 20.0)


@dataclass(frozen=True, slots=True)
class Options:
    """ROWS, SIZES (millions of stored runs), SHORT and AGAINST of the environment."""

    rows: tuple[int, ...]
    sizes: tuple[int, ...]
    """Numbers of stored runs, ascending."""
    is_short: bool
    against: str = ""
    """A commit that rows are compared with, instead of yardsticks."""

    @classmethod
    def of_environment(cls) -> "Options":
        """Raises `SystemExit` that says what a variable may be."""
        rows = _numbers("ROWS", ALL_ROWS, NAMED)
        if not set(rows) <= set(ALL_ROWS):
            raise SystemExit("ROWS are numbers of the table, such as ROWS=1,2,8, or names of it, such as ROWS=otlp.")
        sizes = tuple(round(size * 1_000_000) for size in sorted(_numbers("SIZES", ALL_SIZES)))
        if min(sizes) < 1_000:  # noqa: PLR2004  # A thousand projects have a run each.
            raise SystemExit("SIZES are millions of runs, such as SIZES=0.1,1.")
        is_short, against = os.environ.get("SHORT") == "1", os.environ.get("AGAINST", "").strip()
        return cls(tuple(int(row) for row in rows), sizes, is_short=is_short, against=against)

    @property
    def rounds(self) -> int:
        return 3

    @property
    def seconds(self) -> float:
        """The seconds of a round under load."""
        return 3 if self.is_short else 10

    @property
    def warm_up_seconds(self) -> float:
        return 2 if self.is_short else 4

    @property
    def memory_seconds(self) -> float:
        return 30 if self.is_short else 600

    @property
    def deep_page(self) -> int:
        """The number of pages of a list that are followed."""
        return 30 if self.is_short else 1_000

    @property
    def requests(self) -> int:
        """The number of requests that are timed one after the other."""
        return 60 if self.is_short else 200

    @property
    def requests_of_many(self) -> int:
        """The number of requests where very many paths are timed."""
        return 20 if self.is_short else 50


def _numbers(name: str, default: tuple[float, ...], named: Mapping[str, int] = {}) -> tuple[float, ...]:  # Only read.
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        return tuple(float(named.get(part.strip(), part)) for part in text.split(","))
    except ValueError:
        raise SystemExit(f"{name} is a list of numbers with commas between them.") from None

"""The results of a benchmark: figures of several rounds, and rows of the table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Figures:
    """One figure, measured several times."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Figures":
        return cls(tuple(values))

    @property
    def median(self) -> float:
        return median(self.values)

    def over(self, yardstick: "Figures") -> float:
        """The ratio of the medians."""
        return self.median / yardstick.median if yardstick.median else float("inf")

    def __format__(self, spec: str) -> str:
        """The median, with the smallest and the largest: `2,310 (2,250-2,400)`."""
        middle, low, high = (format(value, spec) for value in (self.median, min(self.values), max(self.values)))
        return middle if len(self.values) == 1 else f"{middle} ({low}-{high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. Its number is that of the list in README.md."""

    number: int
    measure: str
    service: str
    yardstick: str = ""
    result: str
    goal: str
    reached: bool | None
    """Whether the goal is reached; None if it could not be measured."""
    stored: int | None = None
    """Runs in the table afterwards."""
    void: str | None = None
    """Why the figure does not count."""
    note: str = ""
    figures: Mapping[str, Figures] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.void:
            return "void"
        return "n/a" if self.reached is None else ("yes" if self.reached else "NO")

"""Calendar months in UTC. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from runtally.clock import DAY, next_month, start_of_day


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month: `end` is the first moment of the next one."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, at: datetime) -> Self:
        """Return the month that contains this moment."""
        start = start_of_day(at).replace(day=1)
        return cls(start, next_month(start))

    @property
    def days(self) -> int:
        return (self.end - self.start) // DAY

    @property
    def name(self) -> str:
        """The month as in ISO 8601: 2026-11."""
        return f"{self.start:%Y-%m}"

    def day_of(self, at: datetime) -> int:
        """Return the day of the month that contains this moment, counted from 0."""
        return (at - self.start) // DAY

"""The rule of every limit, GCRA: what a rate allows, and what one decision says. Pure; the stores apply it.

A key has a theoretical arrival time (TAT): when all that it was granted would be used up at the steady rate. A request is
granted if the TAT is then at most `burst_ns` ahead, and moves it by `interval_ns`. So `count` requests pass at once, the
next is refused, and one more passes after each interval.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from math import ceil
from typing import NamedTuple

SECOND_NS = 1_000_000_000
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Rate:
    """So many in a period, and as many at once."""

    count: int
    period: timedelta = MINUTE

    @cached_property
    def interval_ns(self) -> int:
        """From one grant to the next at the steady rate; whole, so that all stores compute the same."""
        return max(round(self.period.total_seconds() * SECOND_NS) // self.count, 1)

    @cached_property
    def burst_ns(self) -> int:
        """A multiple of the interval, not the period itself, so that exactly `count` pass at once whatever it is."""
        return self.interval_ns * self.count


@cache
def per_minute(count: int) -> Rate:
    """The same object each time, so that nothing of it is computed for every request."""
    return Rate(count)


class Decision(NamedTuple):
    """Whether a request passes, and what its key has used, this request included."""

    rate: Rate
    granted: bool
    busy_ns: int
    """Until everything is free again: the TAT, from now."""

    @property
    def wait_ns(self) -> int:
        """Until one more can pass; 0 if it could now."""
        return max(self.busy_ns + self.rate.interval_ns - self.rate.burst_ns, 0)

    @property
    def remaining(self) -> int:
        """How many more could pass now."""
        return max((self.rate.burst_ns - self.busy_ns) // self.rate.interval_ns, 0)

    @property
    def reset_seconds(self) -> int:
        return ceil(max(self.busy_ns, 0) / SECOND_NS)

    @property
    def retry_after_seconds(self) -> int:
        """At least 1: a client that waits 0 seconds comes back too early."""
        return max(ceil(self.wait_ns / SECOND_NS), 1)


class Grant(NamedTuple):
    """What a store says about one key: how many of those asked for pass, and its TAT from now, these included."""

    granted: int
    busy_ns: int

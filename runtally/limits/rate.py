"""The rule of every limit, GCRA: the rate, and the values of one decision. Pure; the stores apply it.

A key has a theoretical arrival time (TAT): the moment when all that it was granted is used up at the steady rate. A
request is granted if the TAT is then at most `burst_ns` ahead, and moves it by `interval_ns`. So `count` requests pass
at once, the next is refused, and one more passes after each interval.
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
    """A number of requests per period, all of which may be sent at once."""

    count: int
    period: timedelta = MINUTE

    @cached_property
    def interval_ns(self) -> int:
        """Nanoseconds between two grants at the steady rate; a whole number, so that all stores compute the same."""
        return max(round(self.period.total_seconds() * SECOND_NS) // self.count, 1)

    @cached_property
    def burst_ns(self) -> int:
        """The largest lead of the theoretical arrival time (TAT) over the clock, in nanoseconds.

        A multiple of the interval and not the period itself, so that exactly `count` requests pass at once.
        """
        return self.interval_ns * self.count

    def wait_ns(self, busy_ns: int) -> int:
        """Return the nanoseconds until one more request can pass for a key with this TAT; 0 if it could now."""
        return max(busy_ns + self.interval_ns - self.burst_ns, 0)


@cache
def per_minute(count: int) -> Rate:
    """Return a rate per minute, always the same object, so that its values are computed once."""
    return Rate(count)


class Decision(NamedTuple):
    """Whether a request passes, and how much of its limit the key has used, this request included."""

    rate: Rate
    granted: bool
    busy_ns: int
    """Nanoseconds until the whole limit is free again: the TAT, from now."""

    @property
    def wait_ns(self) -> int:
        """Nanoseconds until one more request can pass; 0 if it could now."""
        return self.rate.wait_ns(self.busy_ns)

    @property
    def remaining(self) -> int:
        """The number of further requests that could pass now."""
        return max((self.rate.burst_ns - self.busy_ns) // self.rate.interval_ns, 0)

    @property
    def reset_seconds(self) -> int:
        return ceil(max(self.busy_ns, 0) / SECOND_NS)

    @property
    def retry_after_seconds(self) -> int:
        """Seconds to wait; at least 1, because a client that waits 0 seconds comes back too early."""
        return max(ceil(self.wait_ns / SECOND_NS), 1)


class Grant(NamedTuple):
    """A store's answer for one key: how many of the wanted requests pass, and the TAT from now, these included."""

    granted: int
    busy_ns: int

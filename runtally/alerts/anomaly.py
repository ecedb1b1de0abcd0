"""Judge whether an hour costs far more than the same hour of past weeks. Pure.

The usual cost is the median of that hour and its two neighbours in each of the last four weeks; its variation is their
median absolute deviation. Both are unaffected if fewer than half of these hours were unusual themselves. Hours are of UTC,
and work begins by the clock on the wall: what either neighbour alone would have allowed is allowed too, so that a change to
or from summer time alerts nobody. Only higher cost alerts: lower cost harms no budget, and every holiday would alert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from runtally.alerts.week import WEEK

HOUR = timedelta(hours=1)
WEEKS = 4
AROUND = (-HOUR, timedelta(0), HOUR)
LEAST_HOURS = 2 * len(AROUND)
"""Two weeks; with fewer hours the usual cost is unknown."""
LEAST_MORE_USD = Decimal(1)
JUDGED_HOURS = 24
"""The last hours that are judged whenever runs come: also those that came late, or after a restart."""
# A normal distribution's standard deviation is this many median absolute deviations.
_SIGMA = Decimal("1.4826")
_SIGMAS = 6


@dataclass(frozen=True, slots=True)
class UnusualHour:
    """An hour that costs far more than it used to."""

    hour: datetime
    cost_usd: Decimal
    usual_usd: Decimal
    limit_usd: Decimal


def compared_hours(hour: datetime) -> tuple[datetime, ...]:
    """List the hours of past weeks that an hour is compared with, the latest week first, and each week in order."""
    return tuple(hour - week * WEEK + offset for week in range(1, WEEKS + 1) for offset in AROUND)


def judged_hours(last: datetime, since: datetime) -> list[datetime]:
    """List the hours up to the last that are judged by who watches since then, the oldest first."""
    hours = (last - back * HOUR for back in reversed(range(JUDGED_HOURS)))
    return [hour for hour in hours if hour > since - 2 * HOUR or hour == last]


def limit_above(past_usd: Sequence[Decimal]) -> Decimal:
    """Return what an hour may cost: twice the usual, or a dollar or six standard deviations above it, whichever is most."""
    usual = median(past_usd)
    return usual + max(six_deviations(past_usd), usual, LEAST_MORE_USD)


def six_deviations(past: Sequence[Decimal]) -> Decimal:
    """Return six standard deviations, estimated from the median absolute deviation."""
    usual = median(past)
    return _SIGMAS * _SIGMA * median(abs(one - usual) for one in past)


def judge(hour: datetime, cost_usd: Decimal, past_usd: Mapping[datetime, Decimal]) -> UnusualHour | None:
    """Return None where the hour is as usual, or where too few of the hours that it is compared with are known."""
    if len(past_usd) < LEAST_HOURS:
        return None
    usual = list(past_usd.values())
    neighbours = (
        [usd for past, usd in past_usd.items() if (hour - past) % WEEK == offset] for offset in (HOUR, WEEK - HOUR)
    )
    limit = max(map(limit_above, (usual, *neighbours)))
    return UnusualHour(hour, cost_usd, median(usual), limit) if cost_usd > limit else None

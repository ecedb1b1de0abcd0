"""Decide which budgets alert: each share once a period, and of a budget for each value, each value once.

A period that ended yesterday is judged all of today as well, because its last runs come in after its end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from runtally.alerts.budget_message import part_subject
from runtally.budgets import queries
from runtally.budgets.spending import BudgetState, Spending, least_to_alert_usd, read_state, spent_in
from runtally.budgets.terms import BudgetTerms
from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.names import LiveNames

VALUES_QUIET: Final = timedelta(hours=1)
"""A budget for each value has at most one alert on each share in this time; the next names all values that came meanwhile."""


class Alerted(NamedTuple):
    """An alert on a budget that was decided already."""

    at: datetime
    named: frozenset[str]


Alerts = Mapping[tuple[str, str], Mapping[int, Alerted]]
"""The alerts that were decided already: by project and subject, and by their level."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Spendings that have reached a share of a budget, and that no alert named yet."""

    state: BudgetState
    percent: int
    spendings: tuple[Spending, ...]
    part: int
    """Number of the alert among those on this share."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state in which a budget was last evaluated; while it is unchanged, the budget has no new alerts."""

    terms: BudgetTerms
    period: str
    spent_usd: Decimal
    """The cost of all runs of its project."""


@dataclass(slots=True)
class BudgetWatch:
    """Reads the budgets that may have reached a share since they were looked at last; one per process."""

    names: LiveNames
    _done: set[Look] = field(default_factory=set)
    _next: set[Look] = field(default_factory=set)

    async def read_reached(
        self, connection: Connection, now: datetime, alerts: Alerts, others: Sequence[Connection] = ()
    ) -> list[Reached]:
        """Read what has reached a share and is to be alerted on; over all projects those of other databases count, too.

        What whole projects have spent is read for all budgets at once, and is enough to leave out most: no value has
        cost more than its project.
        """
        terms = await queries.select_terms(connection)
        before, changed = end_of_yesterday(now), await queries.select_changed(connection, start_of_day(now))
        ended = [one for one in terms if one.period_name(before) != one.period_name(now) and one.place not in changed]
        looks = dict[Look, datetime]()
        for at, of in ((now, terms), (before, ended)):
            spent = await queries.select_spent(connection, {one.project_id for one in of}, at, others)
            looks |= {
                Look(one, one.period_name(at), spent_in(one, spent)): at
                for one in of
                if (least := least_to_alert_usd(one)) is not None and spent_in(one, spent) >= least
            }
        found = list[Reached]()
        self._next = looks.keys() & self._done
        new = looks.keys() - self._done
        for look in sorted(new, key=lambda one: (one.terms.project_id, one.terms.subject(looks[one]))):
            state = await read_state(connection, look.terms, looks[look], self.names, others)
            reached = list(_new(state, alerts, now))
            found += [one for one in reached if one.spendings]
            # A budget whose use is unknown yet, or whose alert has to wait, is evaluated again.
            if not state.problem and all(one.spendings for one in reached):
                self._next.add(look)
        return found

    def settle(self) -> None:
        """Remember what was looked at, once the alerts on it are stored."""
        self._done = self._next


def end_of_yesterday(now: datetime) -> datetime:
    """Return the last moment of the day before, and on the first of a month of the month before."""
    return start_of_day(now) - timedelta(microseconds=1)


def _new(state: BudgetState, alerts: Alerts, now: datetime) -> Iterator[Reached]:
    """Yield what was reached and not alerted on; without spendings where it has to wait."""
    if state.terms.is_each:
        for percent, spendings in state.reached().items():
            yield from _new_values(state, percent, spendings, alerts, now)
        return
    alerted = max(alerts.get((state.terms.project_id, state.terms.subject(state.now)), {}), default=0)
    for percent, spendings in state.reached().items():
        if percent > alerted:
            yield Reached(state, percent, spendings, 1)


def _new_values(
    state: BudgetState, percent: int, spendings: Sequence[Spending], alerts: Alerts, now: datetime
) -> Iterator[Reached]:
    named, part, last = set[str](), 1, None
    number = 1
    while of_part := alerts.get((state.terms.project_id, part_subject(state.terms, state.now, number))):
        for level, alert in of_part.items():
            if level >= percent:
                named |= alert.named
        if percent in of_part:
            part, last = number + 1, of_part[percent].at
        number += 1
    new = tuple(one for one in spendings if one.value not in named)
    if new:
        must_wait = last is not None and timedelta(0) <= now - last < VALUES_QUIET
        yield Reached(state, percent, () if must_wait else new, part)

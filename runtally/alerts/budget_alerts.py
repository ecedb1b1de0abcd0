"""Decide which budgets alert, and write the text: each share once a period, and of a budget for each value, each value once.

A day or month that ended yesterday is judged all of today as well, and an hour during the next one, because the last runs
come in after the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from runtally.alerts.message import Message, ProjectLink, compose, minimum_of, money, quoted
from runtally.budgets import queries
from runtally.budgets.spending import BudgetState, Spending, least_to_alert_usd, read_state, spent_in
from runtally.budgets.use import BudgetTerms, Use
from runtally.clock import HOUR, start_of_day
from runtally.db.database import Connection
from runtally.models.alert import AlertKind
from runtally.models.budget import BudgetPeriod
from runtally.models.team import NO_TEAMS, Teams
from runtally.money import as_json, plain
from runtally.names import LiveNames
from runtally.usage.timeline import floor

MOST_LISTED = 10
"""The most values that a text lists; the document has all of them."""
_PART = " part "
USED_UP = 100
"""Percent of a budget."""
_WHEN = {BudgetPeriod.HOUR: "%d %b %Y, %H:00 (UTC)", BudgetPeriod.DAY: "%d %b %Y (UTC)", BudgetPeriod.MONTH: "%B %Y"}
_OVER = "That time is over: its last runs came in at its end or later."


def budget_message(project: ProjectLink, use: Use, percent: int, now: datetime) -> Message:
    """Write that all runs of a month have reached a share of its budget; the month may be over."""
    is_over = now >= use.month.end
    forecast = None if is_over else use.forecast_usd
    used = percent_of(use.spent_usd, use.amount_usd)
    minimum = minimum_of(use)
    sentences = [
        f"{project.shown} has used {used} of its budget of {money(use.amount_usd)} for {use.month.start:%B %Y}.",
        f"That is {money(use.spent_usd)}{minimum}.",
    ]
    if is_over:
        sentences.append(_OVER)
    if forecast is not None:
        sentences.append(f"At the pace of the last 7 days the month ends at {money(forecast)}.")
    facts = {
        "month": use.month.name,
        "thresholdPercent": percent,
        "budgetUSD": as_json(use.amount_usd),
        "spentUSD": as_json(use.spent_usd),
        "forecastUSD": None if forecast is None else as_json(forecast),
        "unpricedRuns": use.unpriced,
    }
    return compose(
        AlertKind.BUDGET,
        project,
        now,
        subject=month_subject(use),
        level=percent,
        title=f"{project.shown} has reached {percent}% of its budget"
        + (f" for {use.month.start:%B %Y}" if is_over else ""),
        sentences=sentences,
        facts=facts,
    )


def spending_message(
    project: ProjectLink, state: BudgetState, percent: int, reached: Sequence[Spending], now: datetime
) -> Message:
    """Write that all runs, or those of one value, have reached a share of their budget."""
    terms, [one] = state.terms, reached
    of, used = _of(terms), percent_of(one.spent_usd, terms.amount_usd)
    when = _when(terms, state.now)
    minimum = minimum_of(one)
    return compose(
        AlertKind.BUDGET,
        project,
        now,
        subject=terms.subject(state.now),
        level=percent,
        title=f"{project.shown}{of} has reached {percent}% of its budget for {when}",
        sentences=[
            f"{project.shown}{of} has used {used} of its budget of {money(terms.amount_usd)} for {when}.",
            f"That is {money(one.spent_usd)}{minimum}.",
            *_over(terms, state, now),
        ],
        facts=_facts(terms, state.now, percent)
        | {"value": terms.value or None, "spentUSD": as_json(one.spent_usd), "unpricedRuns": one.unpriced},
    )


def values_message(  # noqa: PLR0913, PLR0917  # What is reached, and when.
    project: ProjectLink, state: BudgetState, percent: int, reached: Sequence[Spending], part: int, now: datetime
) -> Message:
    """Write which values have reached a share of the budget that each of them has; `part` counts such alerts."""
    terms, when = state.terms, _when(state.terms, state.now)
    share = "their" if len(reached) > 1 else "its"
    who = f"{len(reached):,} values of {terms.label}" if len(reached) > 1 else _named(terms, reached[0].value)
    have = "have" if len(reached) > 1 else "has"
    done = "used up" if percent == USED_UP else f"reached {percent}% of"
    listed = ", ".join(
        f"{quoted(spending.value)} {money(spending.spent_usd)}{spending.or_more}" for spending in reached[:MOST_LISTED]
    )
    more = len(reached) - MOST_LISTED
    return compose(
        AlertKind.BUDGET,
        project,
        now,
        subject=part_subject(terms, state.now, part),
        level=percent,
        title=f"{project.shown}: {who} {have} {done} {share} budget for {when}",
        sentences=[
            f"Each value of {terms.label} has a budget of {money(terms.amount_usd)} {terms.period.each}.",
            f"At {percent}% or more: {listed}{f', and {more:,} more' if more > 0 else ''}.",
            *_over(terms, state, now),
        ],
        facts=_facts(terms, state.now, percent)
        | {
            "values": [
                {"value": spending.value, "spentUSD": as_json(spending.spent_usd), "unpricedRuns": spending.unpriced}
                for spending in reached
            ]
        },
        named=tuple(spending.value for spending in reached),
    )


def month_subject(use: Use) -> str:
    """Return the subject of alerts on a monthly budget: one whose amount changes is another one."""
    return f"{use.month.name} {plain(use.amount_usd)}"


def part_subject(terms: BudgetTerms, now: datetime, part: int) -> str:
    """Return the subject of one of the alerts on a budget for each value, which name further values one after the other."""
    return f"{terms.subject(now)}{_PART}{part}"


def whole_subject(subject: str) -> str:
    """Return the subject without the number of the alert."""
    whole, _, number = subject.rpartition(_PART)
    return whole if whole and number.isdecimal() else subject


def _facts(terms: BudgetTerms, now: datetime, percent: int) -> dict[str, object]:
    return {
        "period": terms.period_name(now),
        "dimension": terms.dimension or None,
        "thresholdPercent": percent,
        "budgetUSD": as_json(terms.amount_usd),
    }


def _over(terms: BudgetTerms, state: BudgetState, now: datetime) -> Sequence[str]:
    return () if terms.period_name(now) == terms.period_name(state.now) else (_OVER,)


def _of(terms: BudgetTerms) -> str:
    return "" if terms.of_all_runs else f" with {_named(terms, terms.value)}"


def _named(terms: BudgetTerms, value: str) -> str:
    """Return the value after its dimension; a hash names that itself."""
    return quoted(value) if value.startswith(f"{terms.label} ") else f"{terms.label} {quoted(value)}"


def _when(terms: BudgetTerms, now: datetime) -> str:
    return f"{now:{_WHEN[terms.period]}}"


def percent_of(part: Decimal, whole: Decimal) -> str:
    """Return the share, rounded down: 99.99 % is not all of it."""
    return f"{int(part * 100 // whole):,}%"


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
        self,
        connection: Connection,
        now: datetime,
        alerts: Alerts,
        others: Sequence[Connection] = (),
        teams: Teams = NO_TEAMS,
    ) -> list[Reached]:
        """Read what has reached a share and is to be alerted on; of several projects those of other databases count, too.

        What whole projects have spent is read for all budgets at once, and is enough to leave out most: no value has
        cost more than its project.
        """
        terms = await queries.select_terms(connection)
        moments: list[tuple[datetime, Sequence[BudgetTerms]]] = [(now, terms)]
        for start, is_of_hours in ((start_of_day(now), False), (floor(now, HOUR), True)):
            before, changed = start - timedelta(microseconds=1), await queries.select_changed(connection, start)
            ended = [
                budget
                for budget in terms
                if (budget.period is BudgetPeriod.HOUR) is is_of_hours
                and budget.period_name(before) != budget.period_name(now)
                and budget.place not in changed
            ]
            moments.append((before, ended))
        looks = dict[Look, datetime]()
        for at, of in moments:
            spent = await queries.select_spent(connection, {one.project_id for one in of}, at, others, teams)
            looks |= {
                Look(one, one.period_name(at), spent_in(one, spent)): at
                for one in of
                if (least := least_to_alert_usd(one)) is not None and spent_in(one, spent) >= least
            }
        found = list[Reached]()
        self._next = looks.keys() & self._done
        new = looks.keys() - self._done
        for look in sorted(new, key=lambda one: (one.terms.project_id, one.terms.subject(looks[one]))):
            state = await read_state(connection, look.terms, looks[look], self.names, others, teams)
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
    new = tuple(spending for spending in spendings if spending.value not in named)
    if new:
        must_wait = last is not None and timedelta(0) <= now - last < VALUES_QUIET
        yield Reached(state, percent, () if must_wait else new, part)

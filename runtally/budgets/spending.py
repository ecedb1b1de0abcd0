"""The amounts spent of daily and per-value budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from runtally.budgets.queries import select_terms
from runtally.budgets.use import BudgetTerms
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked, Forbidden, InvalidFilter
from runtally.fields import is_of_several, is_team
from runtally.models.budget import BudgetPeriod
from runtally.models.project import NameStorage
from runtally.models.team import NO_TEAMS, Teams
from runtally.names import LiveNames
from runtally.usage.dimensions import OTHER
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.queries import select_tracked
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import Question
from runtally.usage.timeline import Timeline

MOST_VALUES = 1_000
"""The most values that an alert names, the most expensive first."""
_MEASURES = ("runs", "unpriced", "cost_usd")
_DROPPED = (
    "This project no longer stores values of {}, so no new run counts: remove this budget, or see People's names."
)
_NOT_TRACKED = "No sums are kept of {}: track it under Tracked keys, or remove this budget."


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of all runs, or of those with one value, in the period so far."""

    value: str
    spent_usd: Decimal
    unpriced: int
    """Runs whose cost is not known; with any of them the cost is a minimum."""
    is_minimum: bool = False
    """Whether runs have no price or, of all runs together, units of runs; sums by value do not have that."""

    @property
    def or_more(self) -> str:
        """The words that follow its cost where that is a minimum."""
        return " or more" if self.unpriced or self.is_minimum else ""

    def __add__(self, more: "Spending") -> "Spending":
        return Spending(
            self.value,
            self.spent_usd + more.spent_usd,
            self.unpriced + more.unpriced,
            self.is_minimum or more.is_minimum,
        )


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The amount spent of a budget in a period."""

    terms: BudgetTerms
    now: datetime
    """Now, or the last moment of a period that is over."""
    spendings: tuple[Spending, ...]
    """The costliest value first; a budget of one value or of all runs has one."""
    problem: str = ""
    """Why it is unknown, in a sentence."""

    @property
    def spent_usd(self) -> Decimal:
        """The cost of the costliest value."""
        return max((spending.spent_usd for spending in self.spendings), default=Decimal(0))

    @property
    def left_usd(self) -> Decimal:
        """The rest of the budget, of the costliest value; negative when it is overspent."""
        return self.terms.amount_usd - self.spent_usd

    @property
    def over(self) -> tuple[Spending, ...]:
        """The values that have cost more than the budget."""
        return tuple(spending for spending in self.spendings if spending.spent_usd > self.terms.amount_usd)

    def reached(self) -> Mapping[int, tuple[Spending, ...]]:
        """Return the values that have reached a percent to alert at, by the highest that each has reached."""
        found: dict[int, tuple[Spending, ...]] = {}
        for spending in self.spendings:
            percent = max(
                (each for each in self.terms.alert_percents if self.terms.is_reached(spending.spent_usd, each)),
                default=0,
            )
            if percent:
                found[percent] = (*found.get(percent, ()), spending)
        return found


async def read_states(  # noqa: PLR0913, PLR0917  # Where its runs are, and how their names are stored.
    connection: Connection,
    project_id: str,
    now: datetime,
    names: LiveNames,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> tuple[BudgetState, ...]:
    """Read the daily and per-value budgets of a project or team, or, for a blank id, those over all projects."""
    terms = await select_terms(connection, project_id)
    return tuple([await read_state(connection, budget, now, names, others, teams) for budget in terms])


async def read_state(  # noqa: PLR0913, PLR0917  # Where its runs are, and how their names are stored.
    connection: Connection,
    terms: BudgetTerms,
    now: datetime,
    names: LiveNames,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> BudgetState:
    """Read what is spent of a budget, from sums that are kept: single runs are read only where a day has too many values.

    A name and its hash, which runs have since the project hashes names, count as one. The projects of other databases count
    for a budget of a team, and for one over all projects.
    """
    connections = (connection, *others) if is_of_several(terms.project_id) else (connection,)
    key = terms.key
    if not terms.of_all_runs and key is None:
        return BudgetState(terms, now, (), f"There is no dimension {terms.dimension}.")
    if key is not None and key.tracked_as is not None:
        tracked = [await select_tracked(one, terms.project_id or None, key.tracked_as) for one in connections]
        if not all(one.is_tracked for one in tracked):
            return BudgetState(terms, now, (), _NOT_TRACKED.format(terms.label))
        if names.storage(terms.project_id, key.tracked_as) is NameStorage.DROPPED:
            return BudgetState(terms, now, (), _DROPPED.format(terms.label))
    hashed = _hash_of(terms, names, terms.value)
    spendings = list[Spending]()
    try:
        for each in (
            *(replace(terms, project_id=owner) for owner in _owners(terms, teams)),
            *([replace(terms, value=hashed)] if hashed else ()),
        ):
            groups = await read_groups([GroupRowReader.over(one) for one in connections], _question(each, now))
            spendings += [
                Spending(
                    group[0] if group and group[0] else each.value,
                    sums.totals.cost_usd,
                    sums.totals.unpriced,
                    sums.totals.is_minimum,
                )
                for group, sums in groups.groups.items()
                # Runs without a value are nobody's, and all others together are no value.
                if not terms.is_each or group[0] not in {None, OTHER}
            ]
    except (DimensionNotTracked, Forbidden, InvalidFilter) as error:
        return BudgetState(terms, now, (), error.message)
    return BudgetState(terms, now, _as_one(terms, names, spendings))


def _owners(terms: BudgetTerms, teams: Teams) -> Sequence[str]:
    """Return the projects that are asked one by one: those of a team; over all projects there are sums."""
    return teams.get(terms.project_id, ()) if is_team(terms.project_id) else (terms.project_id,)


def _hash_of(terms: BudgetTerms, names: LiveNames, value: str) -> str | None:
    """Return the hash that new runs have in place of a value, if they have one."""
    if terms.key is None or terms.key.tracked_as is None or not value:
        return None
    return names.hash_of(terms.project_id, terms.key.tracked_as, value)


def _as_one(terms: BudgetTerms, names: LiveNames, spendings: Sequence[Spending]) -> tuple[Spending, ...]:
    """Add up what a value has cost in several projects, and a name and its hash under the name; the costliest comes first."""
    found = dict[str, Spending]()
    for spending in spendings:
        found[spending.value] = found[spending.value] + spending if spending.value in found else spending
    for one in tuple(found.values()):
        hashed = _hash_of(terms, names, one.value)
        if hashed in found:
            found[one.value] += found.pop(hashed)
    return tuple(sorted(found.values(), key=lambda one: -one.spent_usd))


def _question(terms: BudgetTerms, now: datetime) -> Question:
    by = (terms.key,) if terms.is_each and terms.key else ()
    timeline = Timeline.whole(terms.span(now), now)
    measures = (*_MEASURES, "partly_priced") if terms.of_all_runs else _MEASURES
    return Question(timeline, terms.filter, by, measures, limit=MOST_VALUES + 1)


def least_to_alert_usd(terms: BudgetTerms) -> Decimal | None:
    """Return what must be spent before there can be an alert; None where there never is one."""
    return terms.amount_usd * min(terms.alert_percents) / 100 if terms.alert_percents else None


def spent_in(terms: BudgetTerms, spent_usd: Mapping[tuple[str, BudgetPeriod], Decimal]) -> Decimal:
    """Return what all runs of the budget's project have cost in its period."""
    return spent_usd.get((terms.project_id, terms.period), Decimal(0))

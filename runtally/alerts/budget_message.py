"""Write the text of a budget alert. Pure."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from runtally.alerts.message import Message, ProjectLink, compose, minimum_of, money, quoted
from runtally.budgets.spending import BudgetState, Spending
from runtally.budgets.terms import BudgetTerms
from runtally.budgets.use import Use
from runtally.models.alert import AlertKind
from runtally.models.budget import BudgetPeriod
from runtally.money import as_json, plain

MOST_LISTED = 10
"""The most values that a text lists; the document has all of them."""
_PART = " part "
USED_UP = 100
"""Percent of a budget."""
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
    listed = ", ".join(f"{quoted(one.value)} {money(one.spent_usd)}" for one in reached[:MOST_LISTED])
    more = len(reached) - MOST_LISTED
    return compose(
        AlertKind.BUDGET,
        project,
        now,
        subject=part_subject(terms, state.now, part),
        level=percent,
        title=f"{project.shown}: {who} {have} {done} {share} budget for {when}",
        sentences=[
            f"Each value of {terms.label} has a budget of {money(terms.amount_usd)} a {terms.period}.",
            f"At {percent}% or more: {listed}{f', and {more:,} more' if more > 0 else ''}.",
            *_over(terms, state, now),
        ],
        facts=_facts(terms, state.now, percent)
        | {
            "values": [
                {"value": one.value, "spentUSD": as_json(one.spent_usd), "unpricedRuns": one.unpriced}
                for one in reached
            ]
        },
        named=tuple(one.value for one in reached),
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
    return f"{now:%d %b %Y} (UTC)" if terms.period is BudgetPeriod.DAY else f"{now:%B %Y}"


def percent_of(part: Decimal, whole: Decimal) -> str:
    """Return the share, rounded down: 99.99 % is not all of it."""
    return f"{int(part * 100 // whole):,}%"

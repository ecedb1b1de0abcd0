"""A project's budget in one line: the used share, the forecast, and a bar of both."""

from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from msgspec import Struct

from runtally.budgets.use import LEAST, Use
from webapp import formats


class Level(StrEnum):
    """The state of a budget. Each has a word, so that it is not shown by colour alone."""

    FINE = "fine"
    AHEAD = "ahead"
    """The forecast is over the budget."""
    OVER = "over"


_TO_SPARE = Decimal("1.2")
SHORT = {Level.FINE: "", Level.AHEAD: "will be over", Level.OVER: "over"}


class BudgetLine(Struct, frozen=True):
    """The description of a budget in this month; places on the bar are percent of its width."""

    month: str
    used: str
    pace: str
    note: str
    level: Level
    bar: float
    forecast_at: float | None
    alerts_at: tuple[float, ...]
    warning: str
    is_minimum: bool


def budget_line(use: Use) -> BudgetLine:
    forecast = use.forecast_usd
    # The bar is the budget, or as much more as is spent or will be.
    whole = max(use.amount_usd, use.spent_usd, forecast or Decimal(0))
    return BudgetLine(
        month=formats.month(use.month.start),
        used=f"{formats.share(use.spent_usd, use.amount_usd)} of {formats.set_money(use.amount_usd)}",
        pace="" if forecast is None else f"on pace for {formats.rough_money(forecast)}",
        note=_note(use),
        level=level_of(use),
        bar=_place(use.spent_usd, whole),
        forecast_at=None if forecast is None else _place(forecast, whole),
        alerts_at=tuple(
            _place(use.amount_usd * percent / 100, whole)
            for percent in use.alert_percents
            if use.amount_usd * percent / 100 <= whole
        ),
        warning=_warning(use),
        is_minimum=use.is_minimum or use.unpriced > 0,
    )


def basis_of(this_month: Use, last_month: Use) -> str:
    """Return in a sentence what was spent, and an amount that leaves something to spare."""
    spent = f"Spent this month so far: {formats.money(this_month.spent_usd)}; last month: {formats.money(last_month.spent_usd)}."
    forecast = this_month.forecast_usd
    pace = (
        ""
        if forecast is None
        else f" At the pace of the last 7 days this month ends at {formats.rough_money(forecast)}."
    )
    most = max(forecast or Decimal(0), this_month.spent_usd, last_month.spent_usd)
    if not most:
        return spent + pace
    return f"{spent}{pace} {formats.set_money(_round_up(most * _TO_SPARE))} would be a fifth or more above the highest of these."


def _round_up(usd: Decimal) -> Decimal:
    """Round up to two digits, and to a cent at least."""
    step = max(Decimal(1).scaleb(usd.adjusted() - 1), Decimal("0.01"))
    return (usd / step).to_integral_value(ROUND_CEILING) * step


def level_of(use: Use) -> Level:
    if use.left_usd < 0:
        return Level.OVER
    return Level.AHEAD if (use.forecast_usd or 0) > use.amount_usd else Level.FINE


def _warning(use: Use) -> str:
    if use.left_usd < 0:
        return f"{formats.money(-use.left_usd)} over budget"
    return "heading over budget" if level_of(use) is Level.AHEAD else ""


def _note(use: Use) -> str:
    if use.left_usd < 0:
        return ""
    if use.used_up_at is not None:
        return f"used up on {formats.weekday_and_date(use.used_up_at)} at this pace"
    if use.forecast_usd is None:
        return f"no forecast yet; it needs {formats.length(LEAST)} of runs"
    return f"{formats.money(use.left_usd)} left"


def _place(amount_usd: Decimal, whole_usd: Decimal) -> float:
    return round(float(amount_usd / whole_usd * 100), 2)

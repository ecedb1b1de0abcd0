"""Describe the causes of a change of cost."""

from dataclasses import dataclass
from decimal import Decimal

from runtally.usage.drivers import Driver
from runtally.usage.report import Report
from webapp import formats
from webapp.links import View
from webapp.pages.panel.narrowing import toggled

# If one cause explains this part of a change, the other one is not named.
_MAINLY = Decimal("0.75")


@dataclass(frozen=True, slots=True)
class Line:
    """A model that made the cost change; without a URL, all others together."""

    model: str
    url: str | None
    reason: str
    amount: str
    start: float
    length: float
    """The width of the bar in percent: from zero to the right for more cost, to the left for less."""
    rises: bool


@dataclass(frozen=True, slots=True)
class Drivers:
    """The change as a sentence, and the models that make up most of it."""

    sentence: str
    lines: tuple[Line, ...]
    zero: float
    """The place of zero in percent: far enough from the left for the longest bar to the left."""


def drivers_of(report: Report, view: View) -> Drivers | None:
    """Return the causes of the change; None without a previous period, or if nothing changed."""
    change = report.change
    if change is None:
        return None
    rest = change.rest_usd
    sizes = [Decimal(0), rest, *(driver.change_usd for driver in change.drivers)]
    width = max(sizes) - min(sizes)
    zero = _percent(-min(sizes), width)
    lines = [_line(driver, view, width, zero) for driver in change.drivers]
    if rest and formats.money_apart(rest) != formats.NEARLY_NOTHING:
        lines.append(_bar("All others", None, "", rest, width=width, zero=zero))
    return Drivers(_sentence(change.total_usd), tuple(lines), zero)


def _sentence(change_usd: Decimal) -> str:
    if not change_usd or formats.money_apart(change_usd) == formats.NEARLY_NOTHING:
        return "Cost is the same as in the previous period, but not for the same models."
    size = formats.money(abs(change_usd))
    return f"Cost is {size} {'more' if change_usd > 0 else 'less'} than in the previous period."


def _line(driver: Driver, view: View, width: Decimal, zero: float) -> Line:
    url = toggled(view, "model", driver.model)
    return _bar(driver.model, url, reason_of(driver), driver.change_usd, width=width, zero=zero)


def _bar(  # noqa: PLR0913  # The fields of the line.
    name: str, url: str | None, reason: str, change_usd: Decimal, *, width: Decimal, zero: float
) -> Line:
    length = _percent(abs(change_usd), width)
    return Line(
        name,
        url,
        reason,
        formats.money_apart(change_usd),
        start=zero if change_usd > 0 else round(zero - length, 2),
        length=length,
        rises=change_usd > 0,
    )


def _percent(part: Decimal, whole: Decimal) -> float:
    return round(float(part / whole * 100), 2)


def reason_of(driver: Driver) -> str:
    """Say whether there were more runs, or each cost more."""
    if driver.is_new:
        return "not used before"
    if driver.is_gone:
        return "not used any more"
    runs = "more runs" if driver.by_runs_usd > 0 else "fewer runs"
    each = "more per run" if driver.by_cost_per_run_usd > 0 else "less per run"
    sizes = abs(driver.by_runs_usd), abs(driver.by_cost_per_run_usd)
    if sizes[0] >= _MAINLY * sum(sizes):
        return runs
    return each if sizes[1] >= _MAINLY * sum(sizes) else f"{runs}, {each}"

"""Describe the causes of a change of cost."""

from decimal import Decimal

from msgspec import Struct

from runtally.usage.dimensions import Dimension
from runtally.usage.drivers import Driver, change_of
from webapp import formats, words
from webapp.addresses import address_of
from webapp.pages.panel.grouping import PageGroups
from webapp.pages.panel.narrowing import toggled
from webapp.view import View

# If one cause explains this part of a change, the other one is not named.
_MAINLY = Decimal("0.75")


class Line(Struct, frozen=True):
    """A value that made the cost change; without a URL, runs that no filter keeps."""

    name: str
    url: str | None
    reason: str
    amount: str
    start: float
    length: float
    """The width of the bar in percent: from zero to the right for more cost, to the left for less."""
    rises: bool


class Drivers(Struct, frozen=True):
    """The change as a sentence, and the values that make up most of it."""

    sentence: str
    lines: tuple[Line, ...]
    zero: float
    """The place of zero in percent: far enough from the left for the longest bar to the left."""
    compare_url: str | None
    """The comparison of both periods; None over all projects."""


def drivers_of(groups: PageGroups, view: View) -> Drivers | None:
    """Return the causes of the change; None without a previous period, if nothing changed, or where groups overlap."""
    now, before = groups.bars, groups.previous
    if view.by is None or now is None or before is None or now.is_overlapping:
        return None
    change = change_of(now, before)
    if change is None:
        return None
    rest = change.rest_usd
    sizes = [Decimal(0), rest, *(driver.change_usd for driver in change.drivers)]
    width = max(sizes) - min(sizes)
    zero = _percent(-min(sizes), width)
    money = formats.column_money(sizes)
    lines = [
        _bar(
            words.value_name(view.by, driver.value, groups.names),
            toggled(view, view.by, driver.value),
            reason_of(driver),
            driver.change_usd,
            money=money,
            width=width,
            zero=zero,
        )
        for driver in change.drivers
    ]
    if rest and formats.money_apart(rest) != formats.NEARLY_NOTHING:
        lines.append(_bar("All others", None, "", rest, money=money, width=width, zero=zero))
    compare_url = None
    if view.project_id is not None:
        compare_url = address_of("compare.show", view.filter_query, project_id=view.project_id)
    return Drivers(_sentence(change.total_usd, view.by), tuple(lines), zero, compare_url)


def _sentence(change_usd: Decimal, dimension: Dimension) -> str:
    if not change_usd or formats.money_apart(change_usd) == formats.NEARLY_NOTHING:
        by = words.in_sentence(dimension)
        return f"Cost is the same as in the previous period, but not for every {by}."
    size = formats.money(abs(change_usd))
    return f"Cost is {size} {'more' if change_usd > 0 else 'less'} than in the previous period."


def _bar(  # noqa: PLR0913  # The fields of the line.
    name: str, url: str | None, reason: str, change_usd: Decimal, *, money: formats.Write, width: Decimal, zero: float
) -> Line:
    length = _percent(abs(change_usd), width)
    return Line(
        name,
        url,
        reason,
        formats.money_apart(change_usd, money),
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
        return "no longer used"
    runs = "more runs" if driver.by_runs_usd > 0 else "fewer runs"
    each = "more per run" if driver.by_cost_per_run_usd > 0 else "less per run"
    sizes = abs(driver.by_runs_usd), abs(driver.by_cost_per_run_usd)
    if sizes[0] >= _MAINLY * sum(sizes):
        return runs
    return each if sizes[1] >= _MAINLY * sum(sizes) else f"{runs}, {each}"

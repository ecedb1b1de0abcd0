"""Tables of the runs of coding agents, one for each dimension, with what a reader asks next."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct

from runtally.runs.agent_figures import AgentFigures, Refused, Reported
from runtally.usage.agents import AGENT, REPOSITORY, TEAM, AgentDetails, AgentReport
from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, USER, Dimension
from runtally.usage.summary import Summary
from runtally.usage.timeline import DAY
from runtally.usage.totals import NO_RUNS, Totals
from runtally.usage.window import Window
from webapp import formats, words
from webapp.addresses import address_of
from webapp.charts.metrics import cache_share
from webapp.pages.panel.narrowing import toggled
from webapp.pages.panel.panel import Refusal, refusal_of
from webapp.pages.quality.parts import Part
from webapp.report import Sparkline, sparkline_of
from webapp.view import View

TITLES: Final = {USER: "Developers", TEAM: "Teams", REPOSITORY: "Repositories", AGENT: "Agents", MODEL: "Models"}
_UNNAMED: Final = {
    USER: "No user",
    TEAM: "No team",
    REPOSITORY: "No repository",
    AGENT: "No agent",
    MODEL: words.NO_VALUE_NAME,
}
_FURTHER: Final = {
    USER: ("Budgets", "project_budgets.budgets", None),
    AGENT: ("Cache by agent", Part.CACHE.endpoint, {"by": "agent"}),
    MODEL: ("Errors by model", Part.ERRORS.endpoint, {}),
}
"""Pages that answer the next question about a table: name, endpoint and query; None where a page has no range."""
_MORE: Final[Mapping[Dimension, tuple[str, ...]]] = {AGENT: ("Reported cost",), MODEL: ("429", "5xx")}
"""Headings of the columns that only one table has."""


class AgentRow(Struct, frozen=True):
    """The sums of a value's runs; the URL is None if no filter selects them."""

    name: str
    note: str | None
    url: str | None
    length: float
    """The width of its bar, in percent of the highest cost."""
    sparkline: Sparkline
    cost: str
    by_day: str
    runs: str
    sessions: str
    cached: str
    failed: str
    more: tuple[str, ...]
    """The values of the columns that only its table has."""
    summary: str


class Link(Struct, frozen=True):
    """A link to another page."""

    name: str
    url: str


class AgentTable(Struct, frozen=True):
    """A table of the runs grouped by one dimension."""

    id: str
    heading: str
    more: tuple[str, ...]
    """The headings of columns that only this table has."""
    rows: tuple[AgentRow, ...]
    refusal: Refusal | None
    breakdown_url: str
    further: Link | None
    """A page that answers the next question about these rows."""


class _Scale(Struct, frozen=True):
    """The totals and maxima to which the rows of a table are compared."""

    view: View
    highest_usd: Decimal
    days: Decimal
    cost: formats.Write
    by_day: formats.Write


def agents_url(view: View) -> str:
    """Return the URL of the dashboard of these runs."""
    return address_of("agents.agents", view.filter_query | view.live_query, project_id=view.project_id or "")


def table_of(
    report: AgentReport,
    figures: AgentFigures | None,
    dimension: Dimension,
    view: View,
    range_query: Mapping[str, object],
) -> AgentTable:
    """Return the table of the runs grouped by a dimension."""
    summary = report.tables[dimension]
    sentence = f"There are too many runs to tell the {TITLES[dimension].lower()} apart: choose a shorter range."
    return AgentTable(
        id=f"by-{dimension.name.removeprefix('metadata.')}",
        heading=TITLES[dimension],
        more=_MORE.get(dimension, ()) if figures else (),
        rows=tuple(_rows(summary, dimension, report, figures, view)) if summary else (),
        refusal=None if summary else refusal_of(sentence, view.project_id),
        breakdown_url=view.replace(by=dimension).breakdown_url(),
        further=_further(dimension, view.project_id or "", range_query),
    )


def _further(dimension: Dimension, project_id: str, range_query: Mapping[str, object]) -> Link | None:
    if dimension not in _FURTHER:
        return None
    name, endpoint, query = _FURTHER[dimension]
    asked = {} if query is None else {**range_query, **query}
    return Link(name, address_of(endpoint, asked, project_id=project_id))


def _rows(
    summary: Summary, dimension: Dimension, report: AgentReport, figures: AgentFigures | None, view: View
) -> Iterator[AgentRow]:
    highest = max((one.cost_usd for one in summary.groups.values()), default=Decimal(0))
    scale = _Scale(
        view,
        highest,
        days_of(report.window),
        column_of(summary.groups.values()),
        formats.column_money([highest / days_of(report.window)]),
    )
    series: dict[str, list[float]] = {name: [0.0] * report.window.length for [name] in summary.groups}
    for (number, [name]), totals in summary.slices.items():
        series[name][number] = float(totals.cost_usd)
    for [name], totals in summary.groups.items():
        more = _more(dimension, name, figures) if figures else ()
        yield _row((dimension, name), totals, series[name], report.details, scale, more)


def _more(dimension: Dimension, value: str, figures: AgentFigures) -> tuple[str, ...]:
    """Return the columns that only this table has."""
    if dimension == MODEL and value != OTHER:
        return tuple(formats.count(runs) for runs in figures.refused.get(value, Refused()))
    if dimension == AGENT and value != OTHER:
        reported = figures.reported.get(None if value == NO_VALUE else value, Reported())
        return (formats.money(reported.reported_usd) if reported.runs else formats.NOTHING,)
    return (formats.NOTHING,) * len(_MORE.get(dimension, ()))


def _row(  # noqa: PLR0913, PLR0917  # The parts of a row.
    place: tuple[Dimension, str],
    totals: Totals,
    costs: list[float],
    details: AgentDetails | None,
    scale: _Scale,
    more: tuple[str, ...],
) -> AgentRow:
    dimension, value = place
    is_one = value != OTHER and details is not None
    sessions = details.session_counts.get(place, 0) if is_one and details else None
    at_list_price = details.at_list_price.get(place, NO_RUNS) if is_one and details else NO_RUNS
    cached = cache_share(totals)
    failed = formats.percent(totals.error_rate)
    by_day = scale.by_day(totals.cost_usd / scale.days)
    return AgentRow(
        name=_UNNAMED[dimension] if value == NO_VALUE else words.value_name(dimension, value),
        note=basis_of(totals, at_list_price),
        url=toggled(scale.view, dimension, value, agents_url),
        length=round(float(totals.cost_usd / scale.highest_usd * 100), 2) if scale.highest_usd else 0,
        sparkline=sparkline_of(costs),
        cost=cost_text(totals, scale.cost),
        by_day=by_day,
        runs=formats.count(totals.runs),
        sessions=formats.NOTHING if sessions is None else formats.count(sessions),
        cached=formats.NOTHING if cached is None else formats.percent(cached, 1),
        failed=failed,
        more=more,
        summary=f"{formats.runs(totals.runs)} · {by_day} a day · {failed} failed",
    )


def basis_of(totals: Totals, at_list_price: Totals) -> str | None:
    """Say which part of a cost is of users on a plan, who do not pay by token."""
    if not at_list_price.runs:
        return None
    if at_list_price.runs >= totals.runs:
        return "API list price"
    return f"{formats.money(at_list_price.cost_usd)} at API list price"


def cost_text(totals: Totals, write: formats.Write = formats.money) -> str:
    return "no price" if totals.unpriced == totals.runs else write(totals.cost_usd)


def column_of(rows: Iterable[Totals]) -> formats.Write:
    return formats.column_money(totals.cost_usd for totals in rows)


def days_of(window: Window) -> Decimal:
    """Return the days of a window that are over or have begun, at least one."""
    return max(Decimal((min(window.until, window.now) - window.start) / DAY), Decimal(1))

"""The lists of a report: models, providers, groups and projects by cost, and failed runs by kind."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from runtally.models.run import Status
from runtally.usage.dimensions import BY_MODEL, ERROR_CODE, EXPERIMENT, OTHER, PROJECT, STATUS, Dimension
from runtally.usage.filter import ALL_RUNS
from runtally.usage.report import Report
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals, total_of
from webapp import formats, words
from webapp.addresses import address_of
from webapp.charts.look import OTHER as OTHER_SLOT
from webapp.charts.series import Groups
from webapp.pages.panel.grouping import PageGroups
from webapp.pages.panel.narrowing import toggled, value_urls
from webapp.project_pages import BREAKDOWN
from webapp.view import View

MAX_BARS = 50
"""The names with a row each: some clients send a model, or an error code, of its own for each run."""


class Bar(Struct, frozen=True):
    """A name, what it cost, and its bar as percent of the longest."""

    name: str
    slot: str | None
    length: float
    share: str
    amount: str
    url: str | None
    """The page of its runs alone, or of all runs again if it is of these."""
    is_chosen: bool


class BarList(Struct, frozen=True):
    """Names by cost, the most expensive first."""

    id: str
    heading: str
    unit: str
    bars: tuple[Bar, ...]
    table_url: str | None = None
    """The URL of the page with all figures of the list."""
    table_name: str | None = None
    """What the link to it says, where that is not to compare them."""


def bar_lists(  # noqa: PLR0913, PLR0917  # What the lists are of.
    report: Report,
    view: View,
    groups: PageGroups,
    drawn: Groups | None,
    projects: Summary | None,
    kinds: Mapping[tuple[str, Status], int] | None,
) -> tuple[BarList, ...]:
    """Return the values of the chosen dimension first; only they have colours, which mean their series in the chart."""
    slots = drawn.slots if drawn else {}
    known: dict[Dimension, Mapping[str, Totals]] = {}
    if groups.bars is not None and view.by is not None:
        known[view.by] = groups.bars.list_by(view.by)
    if projects is not None:
        known[PROJECT] = projects.list_by(PROJECT)
    for dimension in BY_MODEL[::-1]:
        if report.models is not None and dimension not in known:
            known[dimension] = report.models.list_by(dimension)
    lists = []
    for dimension in sorted(known, key=lambda one: (one != view.by, one != PROJECT)):
        colours = slots if dimension == view.by else None
        bars = _bars(known[dimension], view, dimension, colours, groups.names, report.bars.total.cost_usd)
        table_url = None if dimension == PROJECT else view.replace(by=dimension).at(BREAKDOWN).url
        # The name of a key is no plural, as "models" is.
        table_name = None if words.is_built_in(dimension) else "Compare values"
        lists.append(BarList(_id_of(dimension), words.heading_of(dimension), "Cost", bars, table_url, table_name))
    if report.experiments and view.by != EXPERIMENT:
        whole = report.bars.total.cost_usd
        experiments = _bars(report.experiments, view, EXPERIMENT, whole_usd=whole)
        table_url = view.replace(by=EXPERIMENT).at(BREAKDOWN).url
        lists.append(BarList("experiments", "Experiments", "Cost", experiments, table_url))
    # Of runs that ended in one way, there is nothing to distinguish.
    if view.project_id is not None and report.bars.total.failed and view.filter.status is None:
        url = address_of("errors.show", view.replace(filter=ALL_RUNS).filter_query, project_id=view.project_id)
        failures = _failures(report.bars.total, view, kinds)
        lists.append(BarList("failures", "Errors by kind", "Failed runs", failures, url, "See errors"))
    return tuple(lists)


def _id_of(dimension: Dimension) -> str:
    return words.heading_of(dimension).lower() if dimension in BY_MODEL else "groups"


def _bars(  # noqa: PLR0913, PLR0917  # What bars are shown with.
    groups: Mapping[str, Totals],
    view: View,
    dimension: Dimension,
    slots: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    whole_usd: Decimal = Decimal(0),
) -> tuple[Bar, ...]:
    """Return the bars of the dearest of these values, and one of all others; their shares are of what all runs cost."""
    ranked = sorted(groups.items(), key=lambda item: item[0] == OTHER)
    rest, others = ranked[MAX_BARS:], ""
    if len(rest) > 1:
        # Groups that were read without their names are among them, so that their number is not known.
        others = words.OTHER_NAME if rest[-1][0] == OTHER else f"{formats.count(len(rest))} others"
        ranked = [*ranked[:MAX_BARS], (OTHER, total_of(totals for _, totals in rest))]
    money = formats.column_money(totals.cost_usd for _, totals in ranked)
    longest = max((totals.cost_usd for _, totals in ranked), default=Decimal(0))
    chosen, url_of, project_url = view.filter.value_of(dimension), value_urls(view, dimension), view.project_urls()

    def bar(value: str, totals: Totals) -> Bar:
        has_cost = totals.runs > totals.unpriced
        return Bar(
            others if others and value == OTHER else words.value_name(dimension, value, names),
            None if slots is None else slots.get(value, OTHER_SLOT),
            length=round(float(totals.cost_usd / longest * 100), 2) if longest else 0,
            share=formats.share(totals.cost_usd, whole_usd) if has_cost else formats.NOTHING,
            amount=money(totals.cost_usd) if has_cost else "no price",
            url=project_url(value) if dimension == PROJECT and value != OTHER else url_of(value),
            is_chosen=dimension != PROJECT and value == chosen,
        )

    return tuple(bar(value, totals) for value, totals in ranked)


def _failures(total: Totals, view: View, kinds: Mapping[tuple[str, Status], int] | None) -> tuple[Bar, ...]:
    """Return the failed runs by error code, where that is known, else by status; their cost matters little."""
    whole = {Status.ERROR: total.failed - total.timeouts, Status.TIMEOUT: total.timeouts}
    failed = _by_kind(kinds) if kinds is not None else {status: runs for status, runs in whole.items() if runs}
    ranked = sorted(failed.items(), key=lambda item: (-item[1], item[0]))
    rest = dict([item for item in ranked if not isinstance(item[0], Status)][MAX_BARS:])
    longest = max(failed.values(), default=0)

    def bar(name: str, runs: int, dimension: Dimension | None, value: str = "") -> Bar:
        return Bar(
            name,
            None,
            # All others together may be more than any of them.
            length=min(round(runs / longest * 100, 2), 100),
            share=formats.share(Decimal(runs), Decimal(total.failed)),
            amount=formats.count(runs),
            url=None if dimension is None else toggled(view, dimension, value),
            is_chosen=dimension is not None and view.filter.value_of(dimension) == value,
        )

    found = list[Bar]()
    for kind, runs in ranked:
        if kind in rest:
            continue
        if not isinstance(kind, Status):
            found.append(bar(kind, runs, ERROR_CODE, kind))
        elif runs == whole[kind]:
            found.append(bar(kind.capitalize(), runs, STATUS, kind))
        else:
            # No filter keeps those without a code alone.
            found.append(bar(f"{kind.capitalize()}, no code", runs, None))
    if rest:
        name = "1 other code" if len(rest) == 1 else f"{formats.count(len(rest))} other codes"
        found.append(bar(name, sum(rest.values()), None))
    return tuple(found)


def _by_kind(kinds: Mapping[tuple[str, Status], int]) -> Mapping[str, int]:
    """Add runs up by their error code, and those without one by their status."""
    runs: Counter[str] = Counter()
    for (code, status), number in kinds.items():
        runs[code or status] += number
    return runs

"""The rows of the overview's projects: their figures, order and search by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property

import msgspec
from msgspec import Struct

from runtally.budgets.use import Use
from runtally.usage.overview.projects import Listing, ProjectSummary
from runtally.usage.totals import Totals
from runtally.usage.window import Range
from webapp import formats, zone
from webapp.formats import Change
from webapp.pages.project.budget_line import SHORT, Level, level_of
from webapp.report import Cell, Column, Head, Row, SortHeading, Sorting, Table, headings_of, sparkline_of, table_of
from webapp.view import View

PAGE_ROWS = 50
# From here on a rising error rate is marked.
_LEAST_FAILED = 10
_RISEN = 2


def _relative(summary: ProjectSummary) -> Decimal | None:
    """The cost as a multiple of the one before."""
    before = summary.previous.cost_usd if summary.previous else Decimal(0)
    return summary.total.cost_usd / before if before else None


_SPENDING = {"today": "Today", "week": "7 days", "month": "30 days"}
# Which of these is the cost of the range that is looked at.
_OF_RANGE = {Range.WEEK: "week", Range.MONTH: "month"}
_SPENT: Mapping[str, Callable[[ProjectSummary], Decimal]] = {
    "today": lambda one: one.today_usd,
    "week": lambda one: one.week_usd,
    "month": lambda one: one.month_usd,
}
_KEYS: Mapping[str, Callable[[ProjectSummary], object]] = {
    "name": lambda one: (one.project.name.casefold(), one.project.id),
    "runs": lambda one: one.total.runs,
    "errors": lambda one: one.total.error_rate if one.total.runs else None,
    "unpriced": lambda one: one.total.unpriced,
    "cost": lambda one: one.total.cost_usd,
    **_SPENT,
    "change": _relative,
}
SORTS = (*_KEYS, "budget")
"""The columns by which projects can be sorted."""


class BudgetUse(Struct, frozen=True):
    """The used part of a project's budget in this month, and how near its end is."""

    share: str
    amount: str
    level: Level
    word: str


class Paging(Struct, frozen=True):
    """The shown part of the projects that were found, and links to the other parts."""

    text: str
    previous_url: str | None
    next_url: str | None


class ProjectList(Struct, frozen=True):
    """A page of the list, with the form that searches it."""

    table: Table
    search: str
    action: str
    hidden: tuple[tuple[str, str], ...]
    """The other parameters of the URL, which the search form must send along."""
    known: int
    paging: Paging | None
    """The links to other pages; None if all projects are on one page."""
    hidden_cost: str | None


@dataclass(frozen=True)
class Columns:
    """The columns of the list in a view, and the one by which it is sorted."""

    view: View
    has_budgets: bool
    uses: Mapping[str, Use] = field(default_factory=dict)
    """The use of budgets by project: for the shown projects, or for all if the list is sorted by them."""

    def with_uses(self, uses: Mapping[str, Use]) -> "Columns":
        return replace(self, uses=uses)

    @cached_property
    def of_range(self) -> str:
        """The column of the cost of the range that is looked at."""
        range_ = self.view.range
        return _OF_RANGE.get(range_, "cost") if isinstance(range_, Range) else "cost"

    @cached_property
    def titles(self) -> Mapping[str, str]:
        own = "24 hours" if self.view.range is Range.DAY else "Custom range"
        return {
            "name": "Project",
            "runs": "Runs",
            "errors": "Error rate",
            "unpriced": "No price",
            **({"budget": "Budget used"} if self.has_budgets else {}),
            **({"cost": own} if self.of_range == "cost" else {}),
            **_SPENDING,
            # Days are added up as days of UTC.
            **({} if zone.name() == "UTC" else {"today": "Today (UTC)"}),
            "change": "Change",
        }

    @cached_property
    def sorting(self) -> Sorting[str]:
        return Sorting.parse(self.view.own.get("sort"), self.titles, self.of_range)

    @property
    def costs(self) -> tuple[str, ...]:
        return tuple(title for title in self.titles if title == "cost" or title in _SPENDING)

    @property
    def headings(self) -> Mapping[str, SortHeading]:
        return headings_of(self.sorting, self.titles, lambda one: self.view.with_own(sort=one.text(self.of_range)).url)

    @property
    def is_by_change(self) -> bool:
        """Whether the order needs the change of all projects, not only of those on the page."""
        return self.sorting.column == "change"

    @property
    def is_by_budget(self) -> bool:
        """Whether the order needs the budgets of all projects, not only of those on the page."""
        return self.sorting.column == "budget"

    def sorted(self, projects: Sequence[ProjectSummary]) -> Sequence[ProjectSummary]:
        """Sort the projects, which come with the most expensive first."""
        if self.sorting == Sorting(self.of_range):
            return projects
        if self.is_by_budget:
            return self.sorting.sorted(projects, lambda one: _share(self.uses.get(one.project.id)))
        column = self.sorting.column
        return self.sorting.sorted(projects, _KEYS["cost" if column == self.of_range else column])


def project_list_of(
    listing: Listing, columns: Columns, shown: Sequence[ProjectSummary], paging: Paging | None
) -> ProjectList:
    view = columns.view
    hidden_cost = formats.money(listing.hidden.cost_usd) if listing.hidden.runs else None
    return ProjectList(
        table=_table(listing, columns, shown, hidden_cost),
        search=view.own.get("q", ""),
        action=View().url,
        hidden=tuple(view.with_own(q=None).query.items()),
        known=len(listing.projects),
        paging=paging,
        hidden_cost=hidden_cost,
    )


def page_of(
    projects: Sequence[ProjectSummary], view: View, wanted: int
) -> tuple[Sequence[ProjectSummary], Paging | None]:
    """The projects of the page with this number, or of the last there is."""
    found, last = len(projects), max(1, math.ceil(len(projects) / PAGE_ROWS))
    page = min(max(wanted, 1), last)
    first = (page - 1) * PAGE_ROWS
    shown = projects[first : first + PAGE_ROWS]
    if last == 1:
        return shown, None

    def url(number: int) -> str | None:
        return view.with_own(page=str(number) if number > 1 else None).url if 1 <= number <= last else None

    text = f"{formats.count(first + 1)} to {formats.count(first + len(shown))} of {formats.count(found)}"
    return shown, Paging(text, url(page - 1), url(page + 1))


def search(projects: Sequence[ProjectSummary], text: str) -> Sequence[ProjectSummary]:
    """Return the projects with this text in their name or id."""
    if not text:
        return projects
    wanted = text.casefold()
    return [
        project
        for project in projects
        if wanted in project.project.name.casefold() or wanted in project.project.id.casefold()
    ]


def _share(use: Use | None) -> Decimal | None:
    return use.spent_usd / use.amount_usd if use is not None and use.amount_usd else None


def _budget_use(use: Use | None) -> BudgetUse | None:
    if use is None:
        return None
    level = level_of(use)
    amount = formats.set_money(use.amount_usd)
    return BudgetUse(formats.share(use.spent_usd, use.amount_usd), amount, level, SHORT[level])


def _table(listing: Listing, columns: Columns, shown: Sequence[ProjectSummary], hidden_cost: str | None) -> Table:
    """Return a row for each project; the cost of the range that is looked at stays on a narrow screen."""
    sorts, url_of = columns.headings, columns.view.project_urls()
    highest = listing.projects[0].total.cost_usd if listing.projects else Decimal(0)

    def head(row: ProjectSummary) -> Head:
        total, budget = row.total, _budget_use(columns.uses.get(row.project.id))
        of_budget = f" · {budget.share} of {budget.amount}" if budget else ""
        return Head(
            name=row.project.name,
            summary=(f"{formats.runs(total.runs)} · {_error_rate(row)} errors" if total.runs else "no runs")
            + of_budget,
            url=url_of(row.project.id),
            length=round(float(total.cost_usd / highest) * 100, 2) if highest else 0,
        )

    def budget(summary: ProjectSummary) -> str | Cell:
        use = _budget_use(columns.uses.get(summary.project.id))
        return Cell(drawn=use) if use else formats.NOTHING

    def cost(column: str) -> Column[ProjectSummary]:
        spent = _SPENT.get(column)
        if column != columns.of_range and spent is not None:
            money = formats.column_money(map(spent, shown))
            return Column(sorts[column], lambda row: money(spent(row)))
        of_range = formats.column_money(summary.total.cost_usd for summary in shown)

        def write(summary: ProjectSummary) -> Cell:
            is_unknown = summary.total.runs and summary.total.unpriced == summary.total.runs
            return Cell(text="no price" if is_unknown else of_range(summary.total.cost_usd), change=_change(summary))

        return Column(sorts[column], write, "number", "cost")

    listed: list[Column[ProjectSummary]] = [
        Column("Cost over time", lambda row: Cell(sparkline=sparkline_of(row.costs)), "fold"),
        Column(sorts["runs"], lambda row: formats.count(row.total.runs)),
        Column(sorts["errors"], _errors),
        Column(sorts["unpriced"], _unpriced),
        *([Column(sorts["budget"], budget)] if "budget" in sorts else []),
        *map(cost, columns.costs),
        Column(sorts["change"], lambda row: Cell(change=found) if (found := _change(row)) else formats.NOTHING),
    ]
    table = table_of(sorts["name"], head, listed, shown)
    if hidden_cost is None:
        return table
    styles = ((one.style, one.cell_style) for one in listed)
    hidden = tuple((f"{style} {more}".strip(), hidden_cost if more == "cost" else "") for style, more in styles)
    return msgspec.structs.replace(table, total=Row(Head(name="Hidden projects"), hidden))


def _error_rate(summary: ProjectSummary) -> str:
    return formats.percent(summary.total.error_rate) if summary.total.runs else formats.NOTHING


def _errors(summary: ProjectSummary) -> str | Cell:
    before = summary.previous
    if before is None or not _has_risen(summary.total, before):
        return _error_rate(summary)
    return Cell(text=f"↑ {_error_rate(summary)}", aside=f", up from {formats.percent(before.error_rate)}", tone="bad")


def _unpriced(summary: ProjectSummary) -> str | Cell:
    return Cell(text=formats.count(number), tone="warn") if (number := summary.total.unpriced) else formats.NOTHING


def _change(summary: ProjectSummary) -> Change | None:
    return formats.change(summary.total.cost_usd, summary.previous.cost_usd) if summary.previous else None


def _has_risen(now: Totals, before: Totals) -> bool:
    """Twice as many of the runs fail as before, and not for a handful of them."""
    return now.failed >= _LEAST_FAILED and before.runs > 0 and now.error_rate >= _RISEN * before.error_rate

"""The projects of the overview as rows: what each costs, sorted by any of its columns, and sought by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from runtally.budgets.use import Use
from runtally.metrics.report import Overview, ProjectSummary
from runtally.metrics.values import Tally
from runtally.metrics.window import Range
from webapp import formats
from webapp.formats import Change
from webapp.links import View
from webapp.pages.budget_line import SHORT, Level, level_of
from webapp.sorting import SortHeading, Sorting, headings_of

# More are a matter of searching.
MAX_ROWS = 100
# From here on a rising error rate stands out.
_LEAST_FAILED = 10
_RISEN = 2


class Column(StrEnum):
    """What the projects can be sorted by."""

    NAME = "name"
    RUNS = "runs"
    ERRORS = "errors"
    UNPRICED = "unpriced"
    BUDGET = "budget"
    COST = "cost"
    TODAY = "today"
    WEEK = "week"
    MONTH = "month"
    CHANGE = "change"


def _relative(one: ProjectSummary) -> Decimal | None:
    """The cost as a multiple of the one before."""
    before = one.previous.cost_usd if one.previous else Decimal(0)
    return one.total.cost_usd / before if before else None


_NAMES = frozenset({Column.NAME})
_SPENDING = {Column.TODAY: "Today", Column.WEEK: "7 days", Column.MONTH: "30 days"}
# Which of these is the cost of the range that is looked at.
_OF_RANGE = {Range.WEEK: Column.WEEK, Range.MONTH: Column.MONTH}
_KEYS: Mapping[Column, Callable[[ProjectSummary], object]] = {
    Column.NAME: lambda one: (one.project.name.casefold(), one.project.id),
    Column.RUNS: lambda one: one.total.runs,
    Column.ERRORS: lambda one: one.total.error_rate if one.total.runs else None,
    Column.UNPRICED: lambda one: one.total.unpriced,
    Column.COST: lambda one: one.total.cost_usd,
    Column.TODAY: lambda one: one.spending.today_usd,
    Column.WEEK: lambda one: one.spending.week_usd,
    Column.MONTH: lambda one: one.spending.month_usd,
    Column.CHANGE: _relative,
}


@dataclass(frozen=True, slots=True)
class Amount:
    """A cost; the one of the range that is looked at stands out, and stays on a narrow screen."""

    text: str
    is_of_range: bool


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How much of its month's budget a project has used, and how near that is to the end."""

    share: str
    amount: str
    level: Level
    word: str


@dataclass(frozen=True, slots=True)
class Row:
    """A project of the list."""

    name: str
    url: str
    length: float
    runs: str
    error_rate: str
    error_rate_before: str | None
    """Where it has risen so much that one should look."""
    unpriced: str | None
    amounts: tuple[Amount, ...]
    change: Change | None
    summary: str
    heights: tuple[float, ...]
    """Cost per bucket, as percent of the highest."""
    budget: BudgetUse | None


@dataclass(frozen=True, slots=True)
class ProjectList:
    """The rows with their headings, those of the figures before the costs apart from those of the costs."""

    name: SortHeading
    figures: tuple[SortHeading, ...]
    budget: SortHeading | None
    """None where no project has one."""
    costs: tuple[SortHeading, ...]
    cost_of_range: str
    """The column of the cost of the range, by its id."""
    change: SortHeading
    rows: tuple[Row, ...]
    search: str
    action: str
    hidden: tuple[tuple[str, str], ...]
    """What else the address says, and the search must send along."""
    found: int
    known: int
    archived_cost: str | None

    @property
    def left_out(self) -> int:
        return self.found - len(self.rows)


def project_list_of(found: Overview, view: View, uses: Mapping[str, Use]) -> ProjectList:
    """The uses are of the projects that have a budget."""
    has_budgets = any(one.project.id in uses for one in found.projects)
    of_range = _OF_RANGE.get(view.range, Column.COST) if isinstance(view.range, Range) else Column.COST
    own = {} if of_range is not Column.COST else {Column.COST: "24 hours" if view.range is Range.DAY else "Chosen time"}
    titles = {
        Column.NAME: "Project",
        Column.RUNS: "Runs",
        Column.ERRORS: "Error rate",
        Column.UNPRICED: "No price",
        **({Column.BUDGET: "Budget used"} if has_budgets else {}),
        **own,
        **_SPENDING,
        Column.CHANGE: "Change",
    }
    sorting = Sorting.parse(view.sort, titles, of_range)
    headings = headings_of(sorting, titles, _NAMES, lambda one: view.but(sort=one.text(of_range)).url)
    by_id = {heading.id: heading for heading in headings}
    sought = _sought(found.projects, view.search or "")
    costs = tuple(column for column in titles if column in own or column in _SPENDING)
    highest = max((one.total.cost_usd for one in found.projects), default=Decimal(0))
    keys = {**_KEYS, Column.BUDGET: lambda one: _share(uses.get(one.project.id))}
    shown = sorting.sorted(sought, keys, _NAMES)[:MAX_ROWS]
    rest = view.but(search=None)
    return ProjectList(
        name=by_id[Column.NAME],
        figures=tuple(by_id[one] for one in (Column.RUNS, Column.ERRORS, Column.UNPRICED)),
        budget=by_id.get(Column.BUDGET),
        costs=tuple(by_id[one] for one in costs),
        cost_of_range=of_range.value,
        change=by_id[Column.CHANGE],
        rows=tuple(_row(one, view, costs, of_range, highest, uses.get(one.project.id)) for one in shown),
        search=view.search or "",
        action=View().url,
        hidden=tuple(rest.query.items()),
        found=len(sought),
        known=len(found.projects),
        archived_cost=formats.money(found.archived.cost_usd) if found.archived.runs else None,
    )


def _sought(projects: Sequence[ProjectSummary], text: str) -> Sequence[ProjectSummary]:
    wanted = text.casefold()
    return [one for one in projects if wanted in one.project.name.casefold() or wanted in one.project.id.casefold()]


def _share(use: Use | None) -> Decimal | None:
    return use.spent_usd / use.amount_usd if use is not None and use.amount_usd else None


def _budget_use(use: Use | None) -> BudgetUse | None:
    if use is None:
        return None
    level = level_of(use)
    amount = formats.set_money(use.amount_usd)
    return BudgetUse(formats.share(use.spent_usd, use.amount_usd), amount, level, SHORT[level])


def _row(  # noqa: PLR0913, PLR0917  # The project, and what the rows have in common.
    summary: ProjectSummary,
    view: View,
    costs: Sequence[Column],
    of_range: Column,
    highest_usd: Decimal,
    use: Use | None,
) -> Row:
    budget = _budget_use(use)
    of_budget = f" · {budget.share} of {budget.amount}" if budget else ""
    total, before = summary.total, summary.previous
    highest = max(summary.costs)
    error_rate = formats.percent(total.error_rate) if total.runs else formats.NOTHING
    return Row(
        name=summary.project.name,
        url=view.but(project_id=summary.project.id).url,
        length=round(float(total.cost_usd / highest_usd) * 100, 2) if highest_usd else 0,
        runs=formats.count(total.runs),
        error_rate=error_rate,
        error_rate_before=formats.percent(before.error_rate) if before and _has_risen(total, before) else None,
        unpriced=formats.count(total.unpriced) if total.unpriced else None,
        amounts=tuple(_amount(summary, column, of_range) for column in costs),
        change=formats.change(total.cost_usd, before.cost_usd) if before else None,
        summary=(f"{formats.runs(total.runs)} · {error_rate} errors" if total.runs else "no runs") + of_budget,
        heights=tuple(round(cost / highest * 100, 1) if highest else 0 for cost in summary.costs),
        budget=budget,
    )


def _has_risen(now: Tally, before: Tally) -> bool:
    """Twice as many of the runs fail as before, and not for a handful of them."""
    return now.failed >= _LEAST_FAILED and before.runs > 0 and now.error_rate >= _RISEN * before.error_rate


def _amount(summary: ProjectSummary, column: Column, of_range: Column) -> Amount:
    total, spending = summary.total, summary.spending
    if column is of_range:
        return Amount(
            "no price" if total.runs and total.unpriced == total.runs else formats.money(total.cost_usd),
            is_of_range=True,
        )
    cost_usd = {
        Column.TODAY: spending.today_usd,
        Column.WEEK: spending.week_usd,
        Column.MONTH: spending.month_usd,
    }[column]
    return Amount(formats.money(cost_usd), is_of_range=False)

"""Models or providers as one table: what each cost, how it ran, and which price was used."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access.scopes import Scope, demand
from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.runs.read import read_latencies
from runtally.runs.values import Latencies
from runtally.usage.project_queries import select_projects
from runtally.usage.question import LatencyDetail
from runtally.usage.read import readable, report_question
from runtally.usage.reader import UsageReader
from runtally.usage.report import KnownProject
from webapp import formats
from webapp.addresses import path_to
from webapp.charts.series import Split
from webapp.links import View, chosen_project
from webapp.pages.breakdown.rows import KEYS, NAMES, TITLES, Column, Row, groups_of, rows_of
from webapp.pages.panel.narrowing import Chip, chips_of, range_menu_of
from webapp.pages.panel.panel import SPLIT_NAMES, overview_name
from webapp.pages.panel.ranges import Choice, RangeMenu
from webapp.pages.panel.slots import read_slots
from webapp.rendering import Page, render
from webapp.security import signed_in
from webapp.sorting import SortHeading, Sorting, headings_of
from webapp.zone import local

blueprint = Blueprint("breakdown", __name__)

GROUPED = "grouped"
BY = (Split.MODEL, Split.PROVIDER)


@dataclass(frozen=True, slots=True)
class BreakdownView:
    """The state of the table: its runs, grouping, names and order."""

    view: View
    sorting: Sorting[Column]
    is_grouped: bool

    @classmethod
    def parse(cls, query: Mapping[str, str], project_id: str | None) -> "BreakdownView":
        sorting = Sorting.parse(query.get("sort"), Column, Column.COST)
        view = View.parse(query, project_id).replace(sort=None, search=None)
        view = view if view.by in BY else view.replace(by=BY[0])
        return cls(view, sorting, query.get("names") == GROUPED)

    @property
    def url(self) -> str:
        names = GROUPED if self.is_grouped else None
        return self.view.breakdown_url(names=names, sort=self.sorting.text(Column.COST))

    @property
    def more(self) -> dict[str, str]:
        """What a form sends along besides the view."""
        said = {
            "project": self.view.project_id,
            "names": GROUPED if self.is_grouped else None,
            "sort": self.sorting.text(Column.COST),
        }
        return {name: value for name, value in said.items() if value is not None}

    def replace(self, **changes: Any) -> "BreakdownView":  # noqa: ANN401  # Any field of the view.
        return replace(self, view=self.view.replace(**changes))


@dataclass(frozen=True, slots=True)
class BreakdownPage(Page):
    """The table."""

    template: ClassVar[str] = "breakdown/breakdown.html"
    fragment: ClassVar[str] = "breakdown/_breakdown.html"

    heading: str
    project: KnownProject | None
    overview_name: str
    report_url: str
    period: str
    now: datetime
    ranges: RangeMenu
    splits: tuple[Choice, ...]
    names: tuple[Choice, ...]
    chips: tuple[Chip, ...]
    runs_url: str
    headings: tuple[SortHeading, ...]
    rows: tuple[Row, ...]
    has_latency: bool
    latency_note: str | None
    """The runs that the percentiles are taken over."""

    @property
    def document_title(self) -> str:
        return f"{self.heading} · {self.period} · {self.project.name if self.project else self.overview_name}"


@blueprint.get("/breakdown")
@signed_in
async def breakdown() -> ResponseReturnValue:
    """Cost, runs, tokens, errors, latency and price of each model or provider, in a project or in all."""
    project_id = chosen_project(request.args) or actor().project_id
    demand(actor(), Scope.METRICS_READ, project_id)
    shown, now = BreakdownView.parse(request.args, project_id), services().clock()
    async with services().reading.snapshot() as connection:
        range_ = await readable(connection, shown.view.range, project_id, now)
        return await render(await _page(connection, replace(shown, view=shown.view.replace(range=range_)), now))


async def _page(connection: Connection, shown: BreakdownView, now: datetime) -> BreakdownPage:
    """Return the project. Raises `NotFound`."""
    view, project_id = shown.view, shown.view.project_id
    projects = await select_projects(connection, project_id) if project_id is not None else ()
    if project_id is not None and not projects:
        raise NotFound("There is no such project. A project appears with its first run.")
    window = view.window(now)
    reader = UsageReader.of_page(connection, services().memo, window, project_id)
    # Read in the same way as the overview, so that the memo can be shared.
    summary = await reader.summary(replace(report_question(reader, window, view.filter), latencies=LatencyDetail.NONE))
    latencies = await read_latencies(connection, view.run_filter, now) if project_id is not None else Latencies()
    slots = await read_slots(summary, view.by)
    groups = groups_of(summary, latencies, services().prices.book, now, view, is_grouped=shown.is_grouped)
    titles = {name: title for name, title in TITLES.items() if name is not Column.LATENCY or project_id is not None}
    return BreakdownPage(
        heading=f"By {view.by}",
        project=projects[0] if projects else None,
        overview_name=overview_name(actor().project_id),
        report_url=view.url,
        period=view.period,
        now=now,
        ranges=range_menu_of(
            view,
            window,
            path_to("breakdown.breakdown"),
            lambda one: replace(shown, view=one).url,
            **shown.more,
        ),
        splits=tuple(Choice(SPLIT_NAMES[one], shown.replace(by=one).url, one is view.by) for one in BY),
        names=_names(shown),
        chips=chips_of(view, lambda one: replace(shown, view=one).url),
        runs_url=view.runs_url(),
        headings=headings_of(shown.sorting, titles, NAMES, lambda one: replace(shown, sorting=one).url),
        rows=rows_of(shown.sorting.sorted(groups, KEYS, NAMES), view, slots),
        has_latency=project_id is not None,
        latency_note=None
        if latencies.reached is None
        else f"p95 of the runs since {formats.moment(local(latencies.reached))}",
    )


def _names(shown: BreakdownView) -> tuple[Choice, ...]:
    choices = {"Exact names": False, "Model families": True}
    return tuple(
        Choice(name, replace(shown, is_grouped=one).url, one is shown.is_grouped) for name, one in choices.items()
    )

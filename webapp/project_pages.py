"""The pages of a project, and the parameters of its reports.

A report that ignored a parameter that it does not know would show other runs than it was asked for.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from msgspec import Struct
from quart import request

from runtally.access.scopes import Permission, Scope, may
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidFilter
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import NAMES
from webapp.addresses import address_of
from webapp.zone import FIELD, LATER

NO_QUERY: Mapping[str, object] = MappingProxyType({})


class ProjectPage(Struct, frozen=True):
    """A page of a project; one whose path does not name the project has it in its query."""

    name: str
    """The name under which views of it are stored."""
    label: str
    endpoint: str
    needs: Scope | Permission = Scope.METRICS_READ
    has_project_in_query: bool = False
    tab: str = ""
    """What the navigation calls it; empty for a page that another one leads to."""
    found_as: str = ""
    """What search calls it; empty for a page that it does not list."""
    is_report: bool = True
    """Whether its query chooses the runs that it adds up or lists, so that views of it can be saved."""
    is_open_to_links: bool = True

    def is_open_to(self, reader: Actor, project_id: str) -> bool:
        return may(reader, self.needs, project_id) and (self.is_open_to_links or reader.kind is not ActorKind.LINK)

    def address(self, project_id: str | None, query: Mapping[str, object] = NO_QUERY) -> str:
        """Return the address of the page with a query; without a project, of the same page of all projects."""
        if self.has_project_in_query:
            query = {"project": project_id, **query}
        if self.has_project_in_query or project_id is None:
            return address_of(self.endpoint_of_all, query)
        return address_of(self.endpoint, query, project_id=project_id)

    @property
    def endpoint_of_all(self) -> str:
        """The endpoint of the same page of all projects."""
        return self.endpoint if self.has_project_in_query else "overview.overview"

    def saved_address(self, project_id: str, query: str) -> str:
        """Return the address of the page with a query that was saved."""
        begun = "&" if self.has_project_in_query else "?"
        return self.address(project_id) + (f"{begun}{query}" if query else "")


_RUNS = Scope.RUNS_READ
PROJECT_PAGES = (
    OVERVIEW := ProjectPage("overview", "Overview", "project.project", tab="Overview"),
    BREAKDOWN := ProjectPage("breakdown", "Breakdown", "breakdown.breakdown", has_project_in_query=True),
    LINES := ProjectPage("lines", "Cost by line", "lines.show", has_project_in_query=True),
    RUNS := ProjectPage("runs", "Runs", "runs.explorer", _RUNS, has_project_in_query=True, tab="Runs", found_as="runs"),
    SESSIONS := ProjectPage("sessions", "Sessions", "sessions.sessions", _RUNS, tab="Sessions", found_as="sessions"),
    TRACES := ProjectPage("traces", "Traces", "sessions.traces", _RUNS),
    ERRORS := ProjectPage("errors", "Errors", "errors.show", tab="Quality", found_as="errors"),
    SPEED := ProjectPage("speed", "Speed", "speed.show", found_as="speed"),
    CACHE := ProjectPage("cache", "Cache", "cache.show", found_as="cache"),
    COMPARE := ProjectPage("compare", "Compare", "compare.show", tab="Compare", found_as="compare"),
    AGENTS := ProjectPage("agents", "Coding agents", "agents.agents", _RUNS),
    ProjectPage(
        "experiments",
        "Experiments",
        "experiments.experiments",
        has_project_in_query=True,
        tab="Experiments",
        found_as="experiments",
        is_report=False,
    ),
    BUDGETS := ProjectPage(
        "budgets", "Budgets", "project_budgets.budgets", tab="Budgets", found_as="budgets", is_report=False
    ),
    ProjectPage(
        "costs",
        "What if",
        "project_costs.costs",
        tab="What if",
        found_as="what if",
        is_report=False,
        is_open_to_links=False,
    ),
    ProjectPage("settings", "Settings", "project_keys.show", Permission.EDIT_PROJECT, tab="Settings", is_report=False),
)
"""The pages of a project in the order of its navigation, which search, saved views and the addresses of reports read too."""
REPORTS = {page.name: page for page in PROJECT_PAGES if page.is_report}
"""The pages that add up or list the runs that their query chooses, by the name under which views of them are stored."""
TABLES = frozenset({BREAKDOWN, LINES, COMPARE})
"""The reports that group by dimensions that a chart has no room for."""
GROUPED = TABLES | {OVERVIEW}
"""The reports whose groups the reader chooses."""
TABS = tuple(page for page in PROJECT_PAGES if page.tab)
_ENDPOINTS = frozenset({"overview.overview", *(page.endpoint for page in REPORTS.values())})

VALUE = "value"
"""The parameter with a value of the dimension of `by`: two are compared, or one with itself in the period before."""
IMPLIED = "implied"
"""The parameter of a form that nobody chose the period before in: it is left when two values are compared instead."""
FIRST, SECOND = "a", "b"
SIDES = (f"{FIRST}.", f"{SECOND}.")
"""The starts of the filters of a comparison's two sides."""
PLACES = frozenset({"live", "page", "before", "after"})
"""Where in a list a reader is, and whether it follows new runs."""
_FILTERS = frozenset(NAMES.values())
_SHAPES = frozenset({"metric", "by", "sort", "names", "column", "measure", "chart", VALUE})
_OF_FORMS = frozenset({FIELD, LATER, "metadata", IMPLIED})
_PARAMETER = re.compile(r"[A-Za-z_.-]{1,32}")


def is_known(name: str) -> bool:
    """Return whether a report page has this filter or option."""
    return name in _SHAPES or _is_filter(_without_side(name))


async def refuse_unknown() -> None:
    """Refuse a report with a parameter that none has; the hook before a request. Raises `InvalidFilter`."""
    if request.method == "GET" and request.endpoint in _ENDPOINTS:
        _demand_known(request.args)


def _demand_known(names: Iterable[str]) -> None:
    for name in names:
        if is_known(name) or name in PLACES or _without_side(name) in _OF_FORMS:
            continue
        if not _PARAMETER.fullmatch(name):
            # It may be anything, and is not repeated.
            raise InvalidFilter("The address has a parameter that this page does not have. Remove it.")
        near = get_close_matches(name, _FILTERS | _SHAPES, n=1, cutoff=0.75)
        hint = f"Did you mean {near[0]}?" if near else f"To filter by metadata, write {METADATA}{name}."
        raise InvalidFilter(f"This page has no parameter {name}. {hint}")


def _without_side(name: str) -> str:
    side = next((start for start in SIDES if name.startswith(start)), "")
    return name.removeprefix(side)


def _is_filter(name: str) -> bool:
    return name in _FILTERS or (name.startswith(METADATA) and name != METADATA)

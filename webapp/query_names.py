"""The report pages and their parameters. A page that ignored one that it does not know would show other runs than it was asked for."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct
from quart import request

from runtally.access.scopes import Scope
from runtally.errors import InvalidFilter
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import NAMES
from webapp.addresses import path_to
from webapp.pages.compare.view import FIRST, IMPLIED, SECOND, VALUE
from webapp.zone import FIELD, LATER


class ReportPage(Struct, frozen=True):
    """A page about runs of a project; one whose path does not name the project has it in its query."""

    label: str
    endpoint: str
    scope: Scope = Scope.METRICS_READ
    has_project_in_query: bool = False

    def url(self, project_id: str, query: str) -> str:
        """Return the address of the page with a query that was saved."""
        if not self.has_project_in_query:
            path = path_to(self.endpoint, project_id=project_id)
            return f"{path}?{query}" if query else path
        whole = urlencode([("project", project_id), *parse_qsl(query)])
        return f"{path_to(self.endpoint)}?{whole}"


PAGES = {
    "overview": ReportPage("Overview", "project.project"),
    "breakdown": ReportPage("Breakdown", "breakdown.breakdown", has_project_in_query=True),
    "lines": ReportPage("Cost by line", "lines.show", has_project_in_query=True),
    "runs": ReportPage("Runs", "runs.explorer", Scope.RUNS_READ, has_project_in_query=True),
    "sessions": ReportPage("Sessions", "sessions.sessions", Scope.RUNS_READ),
    "traces": ReportPage("Traces", "sessions.traces", Scope.RUNS_READ),
    "errors": ReportPage("Errors", "errors.show"),
    "speed": ReportPage("Speed", "speed.show"),
    "cache": ReportPage("Cache", "cache.show"),
    "compare": ReportPage("Compare", "compare.show"),
    "agents": ReportPage("Coding agents", "agents.agents", Scope.RUNS_READ),
}
"""The pages by the name under which views of them are stored."""
REPORTS = frozenset({"overview.overview", *(page.endpoint for page in PAGES.values())})
"""The endpoints of the pages that add up or list the runs that their query chooses."""

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
    """Refuse a report page with a parameter that none has; the hook before a request. Raises `InvalidFilter`."""
    if request.method == "GET" and request.endpoint in REPORTS:
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

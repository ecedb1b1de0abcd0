"""The head of a project's pages with a range: name, range control and tabs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from runtally.usage.window import Window
from webapp.pages.panel.narrowing import LiveSwitch, live_switch, range_menu_of
from webapp.pages.panel.ranges import RangeMenu
from webapp.pages.project.heading import ProjectHeading
from webapp.view import View


@dataclass(frozen=True, slots=True)
class ProjectFrame:
    """The head of a project's page with a range."""

    project: ProjectHeading
    period: str
    ranges: RangeMenu
    now: datetime
    range_query: Mapping[str, object]
    """The range, for links to other pages of the project."""
    live: LiveSwitch | None = None


def range_of(query: Mapping[str, str], project_id: str) -> View:
    """Return the range that a query asks for, of all runs of a project: the rest of it is for the page to read."""
    asked = View.parse(query, project_id)
    return View(project_id, asked.range, is_live=asked.is_live, mistaken=asked.mistaken, calendar=asked.calendar)


def frame_of(
    project: ProjectHeading, view: View, window: Window, action: str, url_of: Callable[[View], str], **more: str
) -> ProjectFrame:
    """Return the head of a page with this address; `more` are query parameters besides the range."""
    return ProjectFrame(
        project,
        view.period,
        range_menu_of(view, window, action, url_of, **more),
        window.now,
        view.filter_query,
        live_switch(view, window, url_of),
    )

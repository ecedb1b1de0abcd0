"""The common part of a project's settings: their path, and their sections, of which each is a page."""

from quart import Response, url_for

from runtally.models.project import Project
from webapp.addresses import path_to
from webapp.pages.panel.narrowing import Choice
from webapp.rendering import Page, see_other

PATH = "/projects/<project_id:project_id>/settings"
SECTIONS = (
    ("Keys", "project_keys.show"),
    ("Tracked keys", "project_lists.tracked_keys"),
    ("People's names", "project_lists.names"),
    ("Alerts", "project_alerts.show"),
    ("Notes", "project_lists.notes"),
    ("Sharing", "shared_links.show"),
    ("General", "project_general.show"),
)


class SettingsPage(Page, frozen=True):
    """A section of a project's settings, with links to the others."""

    project: Project
    endpoint: str
    """The section that is shown."""

    @property
    def document_title(self) -> str:
        return f"{next(section.name for section in self.sections if section.is_chosen)} · {self.project.name}"

    @property
    def sections(self) -> tuple[Choice, ...]:
        return tuple(
            Choice(name, path_to(endpoint, project_id=self.project.id), endpoint == self.endpoint)
            for name, endpoint in SECTIONS
        )


def back_to(endpoint: str, project_id: str, said: str, at: str = "") -> Response:
    """Redirect from a form to its section, or to a part of it, which says once what was done."""
    return see_other(f"{url_for(endpoint, project_id=project_id)}{at}", flash=said)

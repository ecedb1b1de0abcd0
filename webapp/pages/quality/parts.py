"""The common part of the pages Errors, Speed and Cache: their tabs and figures."""

from webapp.pages.panel.narrowing import Choice
from webapp.pages.project.frame import ReportFrame
from webapp.project_pages import CACHE, ERRORS, SPEED
from webapp.rendering import Page
from webapp.report import Figure


class QualityPage(Page, frozen=True):
    """A quality page: its head, and its figures over all of the range."""

    frame: ReportFrame
    figures: tuple[Figure, ...]

    @property
    def parts(self) -> tuple[Choice, ...]:
        """The links between the pages."""
        view = self.frame.view
        return tuple(Choice(one.label, view.at(one).url, one is view.report) for one in (ERRORS, SPEED, CACHE))

    @property
    def document_title(self) -> str:
        return self.frame.title

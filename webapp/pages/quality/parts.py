"""The common part of the pages Errors, Speed and Cache: their tabs and figures."""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from runtally.usage.window import Window
from webapp.addresses import address_of, path_to
from webapp.pages.panel.narrowing import Choice
from webapp.pages.project.frame import ProjectFrame, ProjectHeading, frame_of
from webapp.rendering import Page
from webapp.report import Figure
from webapp.view import View


class Part(StrEnum):
    """The quality pages, by their paths."""

    ERRORS = "errors"
    SPEED = "speed"
    CACHE = "cache"

    @property
    def endpoint(self) -> str:
        return f"{self.value}.show"


class QualityFrame(Struct, frozen=True):
    """The head of a quality page."""

    frame: ProjectFrame
    parts: tuple[Choice, ...]


class QualityPage(Page, frozen=True):
    """A quality page: its head, and its figures over all of the range."""

    part: ClassVar[Part]

    quality: QualityFrame
    figures: tuple[Figure, ...]

    @property
    def document_title(self) -> str:
        frame = self.quality.frame
        return f"{self.part.value.capitalize()} · {frame.period} · {frame.project.name}"


def part_url(part: Part, view: View, **more: str | None) -> str:
    return address_of(part.endpoint, {**view.filter_query, **view.live_query, **more}, project_id=view.project_id or "")


def quality_frame(
    project: ProjectHeading,
    view: View,
    window: Window,
    part: Part,
    url_of: Callable[[View], str] | None = None,
    **more: str,
) -> QualityFrame:
    """Return the head of a quality page; `more` are query parameters besides the range."""
    of_part = url_of or (lambda one: part_url(part, one))
    action = path_to(part.endpoint, project_id=project.id)
    return QualityFrame(
        frame_of(project, view, window, action, of_part, **more),
        tuple(Choice(one.value.capitalize(), part_url(one, view), one is part) for one in Part),
    )

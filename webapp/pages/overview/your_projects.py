"""The first page of a user with several projects or none; no sum over just these projects is stored."""

from typing import ClassVar

from msgspec import Struct
from quart import url_for

from api.current import actor, services
from runtally.audit import Actor, ActorKind
from runtally.usage.report import ListedProject
from webapp.rendering import Page


class OwnProject(Struct, frozen=True):
    name: str
    id: str
    url: str
    is_hidden: bool


class YourProjectsPage(Page, frozen=True):
    """Links to the projects that the reader has a role in."""

    fragment: ClassVar[str] = "overview/_your_projects.html"
    tab_title: ClassVar[str] = "Your projects"

    projects: tuple[OwnProject, ...]


def has_several_or_none(reader: Actor) -> bool:
    """Return whether the reader is a user without an overview: no admin, and not a member of exactly one project."""
    return reader.kind is ActorKind.USER and not reader.scopes


async def your_projects() -> YourProjectsPage:
    return YourProjectsPage(tuple(map(_own, await services().cells.list_projects(list(actor().grants)))))


def _own(one: ListedProject) -> OwnProject:
    return OwnProject(one.name, one.id, url_for("project.project", project_id=one.id), one.is_hidden)

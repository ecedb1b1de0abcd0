"""The heading of every page of a project."""

from dataclasses import dataclass

from runtally.db.database import Connection
from runtally.usage.overview.project_queries import select_projects


@dataclass(frozen=True, slots=True)
class ProjectHeading:
    """The name, links and tabs of a project above each of its pages."""

    id: str
    name: str
    is_hidden: bool = False


async def heading_of(connection: Connection, project_id: str) -> ProjectHeading:
    """Return the heading; a project without runs is called by its id."""
    for project in await select_projects(connection, project_id):
        return ProjectHeading(project.id, project.name, project.is_hidden)
    return ProjectHeading(project_id, project_id)

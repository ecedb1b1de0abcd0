"""Find the project of a span or log record."""

from typing import NamedTuple

from runtally.fields import is_project_id, trimmed
from runtally.otlp.values import Attributes

OF_RESOURCE = ("runtally.project", "openinference.project.name", "service.name")
_NO_SERVICE = "unknown_service"
"""The prefix of a service name that an SDK invents."""


class ProjectRule(NamedTuple):
    """The rule by which a request's projects are found."""

    named: str | None
    """The project of the whole request, by its key or as the request names it; resources are then ignored."""
    default: str

    def project_of(self, resource: Attributes) -> str:
        if self.named is not None:
            return self.named
        for name in OF_RESOURCE:
            project_id = valid_project(resource.get(name))
            if project_id is not None and not (name == "service.name" and project_id.startswith(_NO_SERVICE)):
                return project_id
        return self.default


def valid_project(sent: object) -> str | None:
    """Return the id without surrounding blanks, if it is a valid one."""
    text = trimmed(sent) if isinstance(sent, str) else ""
    return text if is_project_id(text) else None

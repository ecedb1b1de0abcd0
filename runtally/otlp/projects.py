"""Which project a span or log record belongs to."""

from typing import NamedTuple

from runtally.fields import is_project_id, trimmed
from runtally.otlp.values import Attributes

OF_RESOURCE = ("runtally.project", "openinference.project.name", "service.name")
_NO_SERVICE = "unknown_service"
"""How SDKs begin the name of a service that has none."""


class ProjectRule(NamedTuple):
    """How a request's projects are found."""

    named: str | None
    """The project of all of it, by the key or as the request says; then resources are not asked."""
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
    """The id without blanks at its ends, if a project can have it."""
    text = trimmed(sent) if isinstance(sent, str) else ""
    return text if is_project_id(text) else None

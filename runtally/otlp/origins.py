"""The origins of a request's records: the project and service of each resource, and what became of its records."""

from collections.abc import Sequence
from typing import NamedTuple

from runtally.fields import is_project_id, trimmed
from runtally.otlp import parse
from runtally.otlp.attributes import Facts, read_resource
from runtally.otlp.calls import Call
from runtally.otlp.clients import ClientCounter, Tally
from runtally.otlp.values import Attributes, Resource

_SERVICE = "service.name"
OF_RESOURCE = ("runtally.project", "openinference.project.name", _SERVICE)
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
            sent = resource.get(name)
            project_id = valid_project(parse.service(sent) if name == _SERVICE and sent is not None else sent)
            if project_id is not None and not (name == _SERVICE and project_id.startswith(_NO_SERVICE)):
                return project_id
        return self.default


def valid_project(sent: object) -> str | None:
    """Return the id without surrounding blanks, if it is a valid one."""
    text = trimmed(sent) if isinstance(sent, str) else ""
    return text if is_project_id(text) else None


class Origin(NamedTuple):
    """The origin of records: their project, the attributes of their resource, and the counts of their results."""

    project_id: str
    facts: Facts
    tally: Tally


class Origins:
    """The resources of a request."""

    def __init__(self, rule: ProjectRule) -> None:
        self._rule = rule
        self._known: dict[Resource, Origin] = {}

    def of(self, resource: Resource) -> Origin:
        known = self._known.get(resource)
        if known is None:
            sent = resource.attributes
            known = self._known[resource] = Origin(self._rule.project_of(sent), read_resource(sent), Tally())
        return known

    def count(self, calls: Sequence[Call], kept: Sequence[Call], stored: Sequence[Call]) -> None:
        """Count the results of calls; a call that is not kept was reported by another record."""
        kept_ids, stored_ids = set(map(id, kept)), set(map(id, stored))
        for call in calls:
            tally = self.of(call.resource).tally
            if id(call) in stored_ids:
                tally.runs += 1
            elif id(call) in kept_ids:
                tally.rejected += 1
            else:
                tally.twins += 1

    def tell(self, clients: ClientCounter, exporter: str, signal: str) -> None:
        """Count the request for each service and project with records in it."""
        found: dict[tuple[str, object], Tally] = {}
        for resource, origin in self._known.items():
            key = origin.project_id, parse.service(resource.attributes.get(_SERVICE, ""))
            tally = found.get(key)
            if tally is None:
                found[key] = origin.tally
            else:
                tally.add(origin.tally)
        for (project_id, service), tally in found.items():
            clients.add(project_id, service, exporter, signal, tally)

"""The origins of a request's records: the project and service of each resource, and what became of its records."""

from collections.abc import Sequence
from typing import NamedTuple

from runtally.otlp.attributes import Facts, read_resource
from runtally.otlp.calls import Call
from runtally.otlp.clients import ClientCounter, Tally
from runtally.otlp.projects import ProjectRule
from runtally.otlp.values import Resource


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
            key = origin.project_id, resource.attributes.get("service.name")
            tally = found.get(key)
            if tally is None:
                found[key] = origin.tally
            else:
                tally.add(origin.tally)
        for (project_id, service), tally in found.items():
            clients.add(project_id, service, exporter, signal, tally)

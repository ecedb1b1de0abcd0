"""The list of OpenTelemetry clients, which explains why a client's runs are or are not seen."""

import heapq
from dataclasses import dataclass
from itertools import islice

from runtally.models.otlp import Client
from runtally.otlp.queries import select_clients
from runtally.usage.snapshots import Snapshots
from webapp import formats
from webapp.zone import local


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A service that sent to a project through one kind of exporter."""

    service: str
    project_id: str
    facts: tuple[str, ...]
    outcomes: tuple[str, ...]
    has_runs: bool


async def client_rows(snapshots: Snapshots, project_id: str | None, limit: int) -> tuple[ClientRow, ...]:
    """Return the clients of a project, or of all, the last to send first."""
    found = await snapshots.of_each(lambda one: select_clients(one, project_id, limit))
    clients = heapq.merge(*found, key=lambda client: client.last_at, reverse=True)
    return tuple(map(_row, islice(clients, limit)))


def _row(client: Client) -> ClientRow:
    requests = "1 request" if client.requests == 1 else f"{formats.count(client.requests)} requests"
    return ClientRow(
        service=client.service,
        project_id=client.project_id,
        facts=(
            f"{requests} of {client.signal} by {client.exporter}",
            f"first {formats.minute(local(client.first_at))}",
            f"last {formats.minute(local(client.last_at))}",
        ),
        outcomes=tuple(f"{meaning}: {formats.count(number)}" for number, meaning in client.outcomes),
        has_runs=client.has_runs,
    )

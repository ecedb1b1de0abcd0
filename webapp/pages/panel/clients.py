"""The list of OpenTelemetry clients, which explains why a client's runs are or are not seen."""

import heapq
from datetime import datetime
from itertools import islice

from msgspec import Struct

from runtally.models.otlp import RUNS, Client
from runtally.otlp.queries import select_clients
from runtally.usage.snapshots import Snapshots
from webapp import formats


class ClientRow(Struct, frozen=True):
    """A service that sent to a project through one kind of exporter."""

    service: str
    project_id: str
    sends: str
    requests: str
    records: str
    """Spans or log records, of which model calls are stored as runs."""
    runs: str
    others: str
    """What became of the other records."""
    first: str
    last: str
    has_calls: bool


async def client_rows(snapshots: Snapshots, project_id: str | None, limit: int, now: datetime) -> tuple[ClientRow, ...]:
    """Return the clients of a project, or of all, the last to send first."""
    found = await snapshots.of_each(lambda one: select_clients(one, project_id, limit))
    clients = heapq.merge(*found, key=lambda client: client.last_at, reverse=True)
    return tuple(_row(one, now) for one in islice(clients, limit))


def _row(client: Client, now: datetime) -> ClientRow:
    others = (f"{meaning}: {formats.count(number)}" for number, meaning in client.outcomes if meaning != RUNS)
    return ClientRow(
        service=client.service,
        project_id=client.project_id,
        sends=f"{client.signal} by {client.exporter}",
        requests=formats.count(client.requests),
        records=formats.count(client.records),
        runs=formats.count(client.runs),
        others=", ".join(others).capitalize(),
        first=formats.ago(client.first_at, now),
        last=formats.ago(client.last_at, now),
        has_calls=client.has_calls,
    )

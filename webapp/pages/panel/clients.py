"""The list of OpenTelemetry clients, which explains why a client's runs are or are not seen."""

import heapq
from datetime import datetime
from itertools import islice

from runtally.models.otlp import RUNS, Client
from runtally.otlp.queries import select_clients
from runtally.usage.snapshots import Snapshots
from webapp import formats
from webapp.addresses import path_to
from webapp.report import Cell, Column, Head, Table, table_of


class ClientHead(Head, frozen=True, kw_only=True):
    """A service that sent to a project through one kind of exporter."""

    has_calls: bool


async def clients_table(snapshots: Snapshots, project_id: str | None, limit: int, now: datetime) -> Table | None:
    """Return the clients of a project, or of all, the last to send first; None without any."""
    found = await snapshots.of_each(lambda one: select_clients(one, project_id, limit))
    clients = [*islice(heapq.merge(*found, key=lambda client: client.last_at, reverse=True), limit)]

    def others(client: Client) -> str:
        known = (f"{meaning}: {formats.count(number)}" for number, meaning in client.outcomes if meaning != RUNS)
        return ", ".join(known).capitalize()

    def head(client: Client) -> ClientHead:
        sends = f"{client.signal} by {client.exporter}"
        return ClientHead(name=client.service, note=sends, summary=others(client), has_calls=client.has_calls)

    def project(client: Client) -> Cell:
        return Cell(text=client.project_id, url=path_to("send_runs.show", project_id=client.project_id))

    columns: tuple[Column[Client], ...] = (
        *([Column("Project", project, "fold")] if project_id is None else []),
        Column("Requests", lambda client: formats.count(client.requests)),
        Column("Spans and records", lambda client: formats.count(client.records)),
        Column("Runs", lambda client: formats.count(client.runs), "number"),
        Column("Not stored as runs", lambda client: others(client) or formats.NOTHING, "fold"),
        Column("First", lambda client: formats.ago(client.first_at, now)),
        Column("Last", lambda client: formats.ago(client.last_at, now), "number"),
    )
    return table_of("Service", head, columns, clients) if clients else None

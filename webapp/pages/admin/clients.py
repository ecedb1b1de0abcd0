"""OpenTelemetry clients: their table, which explains why a client's runs are or are not seen, and the page of those of all projects."""

import heapq
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import services
from runtally.models.otlp import RUNS, Client
from runtally.otlp.clients import select_clients
from runtally.otlp.scopes import select_gaps
from runtally.usage.snapshots import Snapshots
from webapp import formats
from webapp.addresses import path_to
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render
from webapp.report import Cell, Column, Head, Table, table_of
from webapp.security import admin

SHOWN = 200
_GAPS_OF = timedelta(days=7)

blueprint = Blueprint("admin_clients", __name__)


class ClientHead(Head, frozen=True, kw_only=True):
    """A service that sent to a project through one kind of exporter."""

    has_calls: bool


async def clients_table(snapshots: Snapshots, project_id: str | None, limit: int, now: datetime) -> Table | None:
    """Return the clients of a project, or of all, the last to send first; None without any."""
    found = await snapshots.of_each(lambda connection: select_clients(connection, project_id, limit))
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


class ClientsPage(Page, frozen=True):
    """Each client, the last to send first."""

    fragment: ClassVar[str] = "admin/_clients.html"
    tab_title: ClassVar[str] = "Clients"

    frame: Frame
    clients: Table | None
    gaps: tuple[tuple[str, str], ...]
    """Projects whose instrumentation leaves something out, each with what."""


@blueprint.get("/admin/clients")
@admin
async def clients() -> ResponseReturnValue:
    """List OpenTelemetry clients with the results of their requests."""
    now = services().clock()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        rows = await clients_table(snapshots, None, SHOWN, now)
        gaps = await snapshots.of_each(lambda connection: select_gaps(connection, now - _GAPS_OF))
    return await render(ClientsPage(frame("admin_clients.clients"), rows, tuple(sorted(chain.from_iterable(gaps)))))

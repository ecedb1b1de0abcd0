"""OpenTelemetry clients of all projects."""

from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import services
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.panel.clients import clients_table
from webapp.rendering import Page, render
from webapp.report import Table
from webapp.security import admin

SHOWN = 200

blueprint = Blueprint("admin_clients", __name__)


class ClientsPage(Page, frozen=True):
    """Each client, the last to send first."""

    fragment: ClassVar[str] = "admin/_clients.html"
    tab_title: ClassVar[str] = "Clients"

    frame: Frame
    clients: Table | None


@blueprint.get("/admin/clients")
@admin
async def clients() -> ResponseReturnValue:
    """List OpenTelemetry clients with the results of their requests."""
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        rows = await clients_table(snapshots, None, SHOWN, services().clock())
    return await render(ClientsPage(frame("admin_clients.clients"), rows))

"""The relay: runs waiting for the reporting table, their age, and runs that failed for good."""

from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.audit import Change, record
from runtally.cells.cell import Cell
from runtally.fields import trimmed
from runtally.reporting.outbox_queries import ParkedRun, RelayStatus, get_relay_status, retry_parked, select_parked
from runtally.settings import RelayMode, Settings
from webapp import formats
from webapp.form import sent_form
from webapp.rendering import see_other
from webapp.security import admin

SHOWN = 100
SECOND = timedelta(seconds=1)

blueprint = Blueprint("admin_relay", __name__)


class Parked(Struct, frozen=True):
    """A run that the relay gave up on."""

    project_id: str
    run_id: str
    since: str
    error: str


class RelayPart(Struct, frozen=True):
    """The status of the relay."""

    waiting: str
    parked: str
    lag: str
    mode: str
    failing: int
    """Waiting runs that failed before."""
    is_more: bool
    """Whether more runs wait than are counted, and more may have failed."""
    last_error: str | None
    runs: tuple[Parked, ...]
    hidden: int


async def relay_part(now: datetime) -> RelayPart:
    """Return queue, lag and parked runs of all cells that answer."""
    found = await services().cells.ask_each(None, _ask)
    first, *others = (status for status, _ in found)
    status = sum(others, start=first)
    parked = sorted(chain(*(runs for _, runs in found)), key=lambda one: one.parked_at, reverse=True)[:SHOWN]
    return RelayPart(
        waiting=status.waiting_words,
        parked=formats.count(status.parked),
        lag=_lag(status, now),
        mode=_mode(services().settings),
        failing=status.failing,
        is_more=status.is_more,
        last_error=status.last_error,
        runs=tuple(
            Parked(one.project_id, one.run_id, formats.ago(one.parked_at, now), one.last_error) for one in parked
        ),
        hidden=status.parked - len(parked),
    )


async def _ask(cell: Cell) -> tuple[RelayStatus, list[ParkedRun]]:
    async with cell.database.snapshot() as connection:
        status = await get_relay_status(connection)
        return status, await select_parked(connection, SHOWN) if status.parked else []


@blueprint.get("/admin/relay")
@admin
async def relay() -> ResponseReturnValue:
    """Redirect to the relay's section of the health page."""
    return see_other(url_for("admin_health.health"))


@blueprint.post("/admin/relay/retry")
@admin
async def retry() -> ResponseReturnValue:
    """Queue parked runs again: the one that the form names, or all of them."""
    form = await sent_form()
    project_id, run_id = (trimmed(form.value(name)) or None for name in ("project", "run"))
    cells, runs = services().cells.of_all(project_id), 0
    for cell in cells:
        async with cell.database.connection() as connection:
            runs += await retry_parked(connection, services().clock(), project_id, run_id)
    async with cells[0].database.session() as session:
        record(session, actor(), Change("relay.retried", run_id or "all parked runs", project_id, after={"runs": runs}))
    return see_other(
        url_for("admin_health.health"),
        flash="1 run queued again." if runs == 1 else f"{runs:,} runs queued again.",
    )


def _lag(status: RelayStatus, now: datetime) -> str:
    if status.oldest_at is None:
        return formats.NOTHING
    return f"{'at least ' if status.is_more else ''}{formats.duration((now - status.oldest_at) // SECOND * 1000)}"


def _mode(settings: Settings) -> str:
    if not settings.service_sync_sign:
        return "Off: SERVICE_SYNC_SIGN is not set, so nothing is queued."
    if settings.relay is RelayMode.OFF:
        return "This server doesn't send runs (RELAY=off); `runtally relay` does."
    return "This server sends runs as they arrive."

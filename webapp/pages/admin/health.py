"""The health of the installation: its problems, the versions of its parts, and the relay with the runs that failed for good."""

import platform
from asyncio import gather
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import chain
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally import BUILD
from runtally.audit import Change, record
from runtally.cells.cell import Cell
from runtally.db.schema import version_name
from runtally.doctor import (
    Finding,
    State,
    examine_archive,
    examine_cell,
    examine_database,
    examine_disk,
    examine_settings,
)
from runtally.fields import trimmed
from runtally.reporting.outbox_queries import ParkedRun, RelayStatus, get_relay_status, retry_parked, select_parked
from runtally.settings import RelayMode, Settings
from webapp import formats
from webapp.form import sent_form
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

WORDS = {State.OK: "OK", State.WARN: "Warning", State.FAIL: "Broken"}
ORDER = (State.FAIL, State.WARN, State.OK)

blueprint = Blueprint("admin_health", __name__)
SHOWN = 100
SECOND = timedelta(seconds=1)


class RelayPart(Struct, frozen=True):
    """The status of the relay."""

    status: RelayStatus
    lag: str
    mode: str
    runs: tuple[ParkedRun, ...]
    now: datetime


async def relay_part(now: datetime) -> RelayPart:
    """Return queue, lag and parked runs of all cells that answer."""
    found = await services().cells.ask_each(_ask)
    first, *others = (status for status, _ in found)
    status = sum(others, start=first)
    parked = sorted(chain(*(runs for _, runs in found)), key=lambda one: one.parked_at, reverse=True)[:SHOWN]
    return RelayPart(status, _lag(status, now), _mode(services().settings), tuple(parked), now)


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


class HealthPage(Page, frozen=True):
    """Findings, what is broken first."""

    fragment: ClassVar[str] = "admin/_health.html"
    tab_title: ClassVar[str] = "Health"

    frame: Frame
    findings: tuple[tuple[Finding, str], ...]
    facts: tuple[tuple[str, str], ...]
    relay: RelayPart


@blueprint.get("/admin/health")
@admin
async def health() -> ResponseReturnValue:
    """The findings of `runtally doctor` for this server."""
    settings = services().settings
    cells = services().cells
    async with cells.main.database.connection() as connection:
        found = await examine_database(connection, services().clock, services().prices.book)
        archive = await examine_archive(cells.main.archive, connection)
    further = await gather(
        *(
            examine_cell(cell.name, cell.database.connection(), cell.archive, services().clock)
            for cell in cells.every
            if cell is not cells.main
        )
    )
    findings = [*examine_settings(settings), *found, *([archive] if archive else []), *chain(*further)]
    if settings.data_dir.is_dir():
        findings.append(examine_disk(settings.data_dir))
    by_state = sorted(findings, key=lambda finding: ORDER.index(finding.state))
    words = tuple((finding, WORDS[finding.state]) for finding in by_state)
    return await render(
        HealthPage(frame("admin_health.health"), words, tuple(_facts()), await relay_part(services().clock()))
    )


def _facts() -> Iterator[tuple[str, str]]:
    up = services().uptime
    yield "Runtally", BUILD
    yield "Up for", formats.duration(int(up.total_seconds() * 1000))
    yield "Schema", f"version {version_name()}"
    yield "Python", platform.python_version()
    yield "Quart", version("quart")

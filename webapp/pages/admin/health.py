"""The health of the installation: its problems, and the versions of its parts."""

import platform
from asyncio import gather
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import services
from runtally import BUILD
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
from webapp import formats
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.admin.relay import RelayPart, relay_part
from webapp.rendering import Page, render
from webapp.security import admin

WORDS = {State.OK: "OK", State.WARN: "Warning", State.FAIL: "Broken"}
ORDER = (State.FAIL, State.WARN, State.OK)

blueprint = Blueprint("admin_health", __name__)


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
    up = services().clock() - services().opened_at
    yield "Runtally", BUILD
    yield "Up for", formats.duration(int(up.total_seconds() * 1000))
    yield "Schema", f"version {version_name()}"
    yield "Python", platform.python_version()
    yield "Quart", version("quart")

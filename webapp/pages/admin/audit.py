"""The audit log, newest entries first."""

import heapq
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar

from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.audit import MAX_ENTRIES, file_of
from api.current import services
from runtally.audit import PAGE, list_entries
from runtally.cells.cell import Cell
from runtally.fields import MAX_ROW, parse_whole, trimmed
from runtally.models.audit import AuditEntry
from runtally.settings import MAIN
from runtally.units import TOKEN_KINDS
from webapp import formats
from webapp.addresses import chosen_project
from webapp.form import Form
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render
from webapp.security import admin
from webapp.zone import local

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
_AMOUNT = re.compile(r"\d+\.\d+")

blueprint = Blueprint("admin_audit", __name__)


class AuditPage(Page, frozen=True):
    """A page of the log."""

    fragment: ClassVar[str] = "admin/_audit.html"
    tab_title: ClassVar[str] = "Audit log"

    frame: Frame
    entries: tuple[AuditEntry, ...]
    filter: Form
    projects: tuple[tuple[str, str], ...]
    older_url: str | None
    newest_url: str | None
    export_url: str
    most_exported: int = MAX_ENTRIES

    def changes(self, entry: AuditEntry) -> list[tuple[str, str, str]]:
        """Return field, before and after, of which one may be empty; a field that begins without a value is not shown."""
        before, after = entry.before or {}, entry.after or {}
        names = (name for name in {**before, **after} if name in before or after[name] not in (None, []))
        return [
            (NAMES.get(name) or name.replace("_", " "), _shown(before, name), _shown(after, name)) for name in names
        ]


@blueprint.get("/admin/audit")
@admin
async def audit() -> ResponseReturnValue:
    """The log, of one project or of all, and of one person or of all."""
    chosen, before = _chosen(), _position(request.args.get("before", ""))
    project_id = chosen["project"]
    found = await _found(chosen, before, PAGE + 1)
    page = AuditPage(
        frame=frame("admin_audit.audit"),
        entries=tuple(entry for _, entry in found[:PAGE]),
        filter=Form(values={name: (value or "",) for name, value in chosen.items()}),
        projects=_choices([project.id for project in await services().cells.list_projects()], project_id),
        older_url=_older_url(found, before, chosen),
        newest_url=url_for("admin_audit.audit", **chosen) if before else None,
        export_url=url_for("admin_audit.export", **chosen),
    )
    return await render(page)


@blueprint.get("/admin/audit.csv")
@admin
async def export() -> ResponseReturnValue:
    """The newest entries of the same filter, as a file."""
    found = await _found(_chosen(), {}, MAX_ENTRIES)
    answer = file_of([entry for _, entry in found])
    answer.headers["Content-Disposition"] = "attachment; filename=audit.csv"
    return answer


def _chosen() -> dict[str, Any]:
    """Return the filter of the query."""
    return {
        "project": chosen_project(request.args),
        "who": trimmed(request.args.get("who", "").replace("\0", "")) or None,
    }


async def _found(chosen: Mapping[str, Any], before: Mapping[str, int], limit: int) -> list[tuple[str, AuditEntry]]:
    """Return the newest entries before these positions, each with the name of its cell."""

    async def of_cell(cell: Cell) -> list[tuple[str, AuditEntry]]:
        async with cell.database.session() as session:
            entries = await list_entries(
                session, project_id=chosen["project"], who=chosen["who"], before=before.get(cell.name), limit=limit
            )
            return [(cell.name, one) for one in entries]

    # What is done to a project may be noted in its cell, or with people and keys.
    of_each = await services().cells.ask_each(of_cell)
    return list(islice(heapq.merge(*of_each, key=lambda one: one[1].at, reverse=True), limit))


NAMES = {
    "amount_usd": "amount, USD",
    "tolerance_usd": "tolerance, USD",
    "alert_percents": "alerts at, % of budget",
    "effective_from": "in force from (UTC)",
    "effective_to": "until the start of (UTC)",
    "cost_usd_by_month": "cost, USD by month",
    "percent": "percent off",
    "per_thousand_requests": "USD per 1,000 requests",
    "above_input_tokens": "only above input tokens",
    "retention_days": "days that runs are kept",
    "scopes": "permissions",
    "expires_at": "expires",
    "since": "runs from",
    "until": "runs until the start of",
    **{kind.price_column: f"{kind.label.lower()}, USD per 1M tokens" for kind in TOKEN_KINDS},
}
"""Fields as their forms call them."""


def _choices(ids: list[str], chosen: str | None) -> tuple[tuple[str, str], ...]:
    """A deleted project can still be asked for by its id."""
    gone = [chosen] if chosen and chosen not in ids else []
    return (("", "All projects"), *((id_, id_) for id_ in [*ids, *gone]))


def _position(text: str) -> dict[str, int]:
    """Read the number of an entry of each cell, before which the page begins: `120,eu:55`; that of main has no name."""
    found = {}
    for part in text.split(","):
        name, _, number = part.rpartition(":")
        before = parse_whole(number, MAX_ROW)
        if before is not None:
            found[name or MAIN] = before
    return found


def _older_url(
    found: Sequence[tuple[str, AuditEntry]], before: Mapping[str, int], chosen: Mapping[str, Any]
) -> str | None:
    if len(found) <= PAGE:
        return None
    position = {**before, **{name: entry.id for name, entry in found[:PAGE]}}
    text = ",".join(f"{'' if name == MAIN else f'{name}:'}{number}" for name, number in position.items())
    return url_for("admin_audit.audit", **chosen, before=text)


def _shown(values: Mapping[str, Any], name: str) -> str:
    """The value in words; nothing where the entry says nothing of it."""
    if name not in values:
        return ""
    value = values[name]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_legible(str(each))}" for key, each in value.items()) or "none"
    return ", ".join(str(each) for each in value) if isinstance(value, list) else _legible(str(value))


def _legible(text: str) -> str:
    """A time as other pages write it, an amount without the zeros of its column."""
    if _TIME.fullmatch(text):
        return formats.moment(local(datetime.fromisoformat(text)))
    return text.rstrip("0").rstrip(".") if _AMOUNT.fullmatch(text) else text

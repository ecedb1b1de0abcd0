"""Revalidate pages and charts: a browser keeps them, and the service answers 304 while they are current.

The tag of an answer is made from its inputs where these are known before it is built, so that an unchanged answer is
not built again. Elsewhere it is made from the answer.
"""

import hashlib
from dataclasses import replace

from quart import Response, g, request

from api.current import actor, services
from runtally.access.queries import RecentChanges, select_latest_changes, select_recent_changes
from runtally.cells.cells import CellSnapshot, CellSnapshots
from runtally.cells.request import missing
from runtally.db.combined import gathered
from runtally.usage.reader import UsageReader, compared_since
from runtally.usage.window import Range, Window

ASK_FIRST = "private, no-cache"
"""Figures change with every run, so a browser must ask before it shows an answer again."""
# One URL may have two answers: these headers tell them apart.
VARY = ("HX-Request", "HX-Request-Type", "Cookie")


async def recent_changes(snapshots: CellSnapshots, project_id: str | None = None) -> RecentChanges:
    """Return a value that changes with every audit entry.

    Entries too recent for a replica are read from the main database.
    """
    first, *others = await gathered(_changes_of_cell(snapshot, project_id) for snapshot in snapshots.every)
    latest = tuple(entry for one in (first, *others) for entry in (*one.latest, 0))
    changes = replace(first, latest=latest)
    if not services().is_apart(project_id):
        return changes
    async with services().control.database.connection() as connection:
        return replace(changes, in_control=await select_latest_changes(connection))


async def _changes_of_cell(snapshot: CellSnapshot, project_id: str | None) -> RecentChanges:
    if not snapshot.cell.reading.has_replica:
        return await select_recent_changes(snapshot.reads.connection, project_id)
    async with snapshot.cell.database.connection() as connection:
        return await select_recent_changes(connection, project_id)


async def unchanged(usage: UsageReader, window: Window, changes: RecentChanges) -> Response | None:
    """Return a 304 if the browser has the report of this window and none of its inputs has changed.

    These are the runs of the window and of the one before, everything that is audited, prices, the reader and the
    query; and the minute, because a report says until when it counts. Call it before reading anything else.
    """
    # Every page of a report also shows the cost of the month.
    since = min(compared_since(window), Window.of(Range.MONTH, window.now).start)
    runs = await usage.tag(since)
    minute, reader = window.now.replace(second=0, microsecond=0), actor()
    made_of = (
        (
            runs,
            changes.latest,
            changes.in_control,
            missing(),
            services().prices.book.version,
            minute,
            window.start,
            window.end,
            window.interval,
        ),
        (
            reader.kind,
            reader.name,
            sorted(reader.scopes),
            sorted((id_, sorted(may)) for id_, may in reader.grants.items()),
        ),
        (request.host_url, request.full_path, *(request.headers.get(name) for name in VARY)),
    )
    g.etag = _tag(repr(made_of).encode())
    if not request.if_none_match.contains_weak(g.etag):
        return None
    known = Response(status=304, headers={"Cache-Control": ASK_FIRST, "Vary": ", ".join(VARY)})
    known.set_etag(g.etag, weak=True)
    return known


async def confirm(response: Response) -> Response:
    """Answer 304 without a body if the browser has this answer.

    The tag is weak, because the answer may be compressed later.
    """
    if (
        response.headers.get("Cache-Control") == ASK_FIRST
        and response.status_code == 200  # noqa: PLR2004  # Errors are not cached.
        and request.method in {"GET", "HEAD"}
        and "Set-Cookie" not in response.headers
    ):
        etag = g.get("etag") or _tag(await response.get_data(as_text=False))
        response.set_etag(etag, weak=True)
        await response.make_conditional(request)
    return response


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]

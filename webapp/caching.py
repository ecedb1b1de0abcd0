"""Pages and charts: a browser keeps them for Back, and asks each time whether they are still true; if so, a 304 says that.

An answer's tag says what it was made of, where that is known before it is made: what is unchanged is then not made again.
Elsewhere it says what the answer is.
"""

import hashlib

from quart import Response, g, request

from api.current import actor, services
from runtally.access.history_queries import RecentChanges, select_recent_changes
from runtally.db.database import Connection
from runtally.usage.reader import UsageReader, compared_since
from runtally.usage.window import Range, Window

ASK_FIRST = "private, no-cache"
"""The figures change with every run, so nothing is shown again unasked."""
# Two forms of one URL: caches are told what tells them apart.
VARY = ("HX-Request", "HX-Request-Type", "Cookie")


async def recent_changes(reading: Connection, project_id: str | None = None) -> RecentChanges:
    """Return what differs whenever an audit entry is written; what was just changed is not asked of a replica."""
    if not services().reading.has_replica:
        return await select_recent_changes(reading, project_id)
    async with services().database.connection() as connection:
        return await select_recent_changes(connection, project_id)


async def unchanged(usage: UsageReader, window: Window, changes: RecentChanges) -> Response | None:
    """Return a 304 for a browser that has the report of this window already: nothing that it is made of changed since.

    That is the runs of the window and the one before, everything an audit entry is written for, prices, the reader, and what
    they asked for; and the minute, because a report says until when it counts. Asked before anything else of it is read.
    """
    # Whatever is looked at, a page says what the month cost.
    since = min(compared_since(window), Window.of(Range.MONTH, window.now).start)
    runs = (await usage.days()).tag(since)
    minute, reader = window.now.replace(second=0, microsecond=0), actor()
    made_of = (
        (runs, changes.latest, services().prices.book.version, minute, window.start, window.end, window.interval),
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
    """Answers 304 without a body when the browser has this very answer already. Weak, because it may be compressed later."""
    if (
        response.headers.get("Cache-Control") == ASK_FIRST
        and response.status_code == 200  # noqa: PLR2004  # Only what was found can be the same as before.
        and request.method in {"GET", "HEAD"}
        and "Set-Cookie" not in response.headers
    ):
        etag = g.get("etag") or _tag(await response.get_data(as_text=False))
        response.set_etag(etag, weak=True)
        await response.make_conditional(request)
    return response


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]

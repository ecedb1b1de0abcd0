"""Pages and charts: a browser keeps them for Back, and asks each time whether they are still true; if so, a 304 says that.

An answer's tag says what it was made of, where that is known before it is made: what is unchanged is then not made again.
Elsewhere it says what the answer is.
"""

import hashlib
from datetime import datetime

from quart import Response, g, request

from api.current import actor, services
from runtally.access.history_queries import select_latest
from runtally.metrics.window import Between, Range, Window
from runtally.models.rollup import GRAINS
from runtally.rollups.version_queries import select_version

ASK_FIRST = "private, no-cache"
"""The figures change with every run, so nothing is shown again unasked."""
# Two forms of one URL: caches are told what tells them apart.
VARY = ("HX-Request", "HX-Request-Type", "Cookie")


async def unchanged(window: Window, project_id: str | None) -> Response | None:
    """A 304 for a browser that has the report of this window already: nothing that it is made of changed since.

    That is the runs of the window and the one before, everything an audit entry is written for, prices, the reader, and what
    they asked for; and the minute, because a report says until when it counts. Asked before anything of it is read.
    """
    # What was just changed is not asked of a replica.
    async with services().database.connection() as connection:
        changes = await select_latest(connection)
    # Whatever is looked at, a page says what the month cost.
    since = min(_compared_since(window), Window.of(Range.MONTH, window.now).start)
    async with services().reading.connection() as connection:
        runs = await select_version(connection, since, project_id)
    minute, reader = window.now.replace(second=0, microsecond=0), actor()
    made_of = (
        (runs, changes, services().prices.book.version, minute, window.start, window.end, window.interval),
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


def _compared_since(window: Window) -> datetime:
    """When the period before begins, also where a time of one's own is shown in the longest buckets."""
    if isinstance(window.range, Between):
        return window.range.in_stored_buckets(GRAINS[-1]).compared_since
    return window.previous(window.now).start


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

"""Limit headers and paths of requests before anything parses them: some libraries' parsers take quadratic time.

`docs/security.md` lists these parsers. No header that we read is longer than a few hundred bytes, and no path of ours.
"""

from collections import Counter
from collections.abc import Sequence

from webapp import rendering, sessions, zone
from webapp.server.tracing import Application, Receive, Scope, Send

Header = tuple[bytes, bytes]

MAX_VALUE_BYTES = 2048
"""The most bytes of all values of one name together, because Quart joins cookie headers."""
MAX_PATH_CHARS = 2048
"""Longer paths are cut off, because routing compares each with many routes; no id of ours is as long."""
_OWN_COOKIES = frozenset(
    name.encode()
    for name in (sessions.COOKIE, rendering.THEME_COOKIE, rendering.FLASH_COOKIE, zone.COOKIE, zone.CHOSEN_COOKIE)
)


class BoundedHeads:
    """Middleware that drops headers that are too long to parse, and cuts off paths."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["path"][:MAX_PATH_CHARS], "headers": bounded(scope["headers"])}
        await self._app(scope, receive, send)


def bounded(headers: Sequence[Header]) -> Sequence[Header]:
    """Drop headers that are longer than `MAX_VALUE_BYTES`; names are in lower case.

    Other applications below the same host name may have set many cookies, so our own ones are kept.
    """
    if sum(len(value) for _, value in headers) <= MAX_VALUE_BYTES:
        return headers
    own = [(name, _own_cookies(value) if name == b"cookie" else value) for name, value in headers]
    bytes_of: Counter[bytes] = Counter()
    for name, value in own:
        bytes_of[name] += len(value)
    return [(name, value) for name, value in own if bytes_of[name] <= MAX_VALUE_BYTES]


def _own_cookies(value: bytes) -> bytes:
    pairs = (pair.strip() for pair in value.split(b";"))
    return b"; ".join(pair for pair in pairs if pair.partition(b"=")[0].strip() in _OWN_COOKIES)

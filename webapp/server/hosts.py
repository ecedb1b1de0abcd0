"""Check the host and the path that a request names.

Dev mode is limited to this machine's own host names: there every caller is admin, and any web page can point a name at this
machine. A path is spelled like its route, byte by byte, except for its variable parts: programs disagree on what
`//api/ingest` or `/%61pi/ingest` is, so a proxy that blocks `/api/ingest` may let these pass. Below the path of `PUBLIC_URL`,
such as `/telemetry`, requests are served behind proxies that strip it and behind those that do not.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import cast
from urllib.parse import urlsplit

from quart import Quart, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Rule

from api.current import services
from runtally.errors import Forbidden, NotFound, SettingsError
from runtally.settings import Settings
from webapp.server.tracing import Application, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


async def check_host() -> None:
    """Refuse requests to another host name than this machine's, as sent after DNS rebinding. Raises `Forbidden`."""
    settings = services().settings
    # A header that was too long for a name is missing here.
    if is_foreign(request.headers.get("Host", ""), settings):
        raise Forbidden(
            f"In dev mode everybody is admin, so it answers only on this machine: open {settings.own_url()}, or set "
            "SERVICE_DEV_MODE_ALLOW_REMOTE=1 where all who can reach it may be admin."
        )


def is_foreign(host: str, settings: Settings) -> bool:
    """Return whether a request with this Host header must be refused."""
    if not settings.service_dev_mode or settings.service_dev_mode_allow_remote:
        return False
    return _name(host) not in {*LOOPBACK, settings.host.lower()}


def _name(host: str) -> str | None:
    """Return the host without its port; None for anything else."""
    try:
        parsed = urlsplit(f"//{host}")
    except ValueError:
        return None
    return parsed.hostname if parsed.netloc == host and "@" not in host else None


class BelowPath:
    """Middleware that removes the path of `PUBLIC_URL` where a request still has it. `SizedRequest` puts it before URLs."""

    def __init__(self, app: Application, base: str) -> None:
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._base}/"):
            sent, base = scope.get("raw_path") or b"", self._base.encode()
            scope = {
                **scope,
                "path": scope["path"].removeprefix(self._base) or "/",
                "raw_path": (sent.removeprefix(base) or b"/") if sent.startswith(base) else sent,
            }
        await self._app(scope, receive, send)


def demand_other_path(app: Quart, base: str) -> None:
    """Raise `SettingsError` for a path that begins as a page does: nobody could tell whether a proxy stripped it."""
    first = base.split("/")[1] if base else ""
    if any(rule.rule.split("/")[1] == first for rule in app.url_map.iter_rules() if first):
        raise SettingsError(f"PUBLIC_URL must not have the path /{first}, which is a page of its own: choose another.")


_VARIABLE = re.compile(r"<[^>]*>")


async def refuse_other_spellings() -> None:
    """Refuse other spellings; the hook after routing. Raises `NotFound`."""
    rule = _matched_rule()
    # Some servers do not tell how the path was written.
    sent: bytes | None = request.scope.get("raw_path")
    if rule is None or not sent:
        return
    path, root = sent.partition(b"?")[0], (request.root_path or "").encode()
    if (path + b"/").startswith(root + b"/"):
        path = path[len(root) :]
    if not is_spelled_as(rule.rule, path or b"/"):
        raise NotFound


def is_spelled_as(pattern: str, path: bytes) -> bool:
    """Return whether the fixed parts of the pattern occur unchanged in the path. In linear time."""
    first, *others = _fixed_parts(pattern)
    if not others:
        return path == first
    *middle, last = others
    if not path.startswith(first) or not path.endswith(last):
        return False
    at, end = len(first), len(path) - len(last)
    for part in middle:
        found = path.find(part, at + 1, end)
        if found == -1:
            return False
        at = found + len(part)
    return at < end


@lru_cache
def _fixed_parts(pattern: str) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in _VARIABLE.split(pattern))


def _matched_rule() -> Rule | None:
    """Return the rule of the path, also if it takes another method."""
    if not isinstance(request.routing_exception, MethodNotAllowed):
        return request.url_rule
    # Whatever raises it says which methods there are.
    method = next(iter(cast("Iterable[str]", request.routing_exception.valid_methods)))
    try:
        found: tuple[Rule, object] = current_app.url_map.bind("").match(request.path, method, return_rule=True)
    except HTTPException:
        return None
    return found[0]

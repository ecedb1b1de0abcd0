"""Serve below the path of `PUBLIC_URL`, such as `/telemetry`, behind proxies that strip it and behind those that do not."""

from quart import Quart

from runtally.errors import SettingsError
from webapp.server.tracing import Application, Receive, Scope, Send


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

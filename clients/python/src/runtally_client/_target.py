"""The server that runs go to, and the one connection there. What takes long to import comes with the first batch, in its thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1_000_000
LONGEST_RETRY_AFTER_SECONDS = 300.0


class Answer(NamedTuple):
    """What the server said to a batch: `document` is empty if it was no JSON of ours."""

    status: int
    retry_after: float
    document: dict[str, Any]


class Target:
    """A server, a key and a project. Raises ValueError if it is no URL of a server."""

    def __init__(self, url: str, key: str | None, project: str) -> None:
        self.connection: HTTPConnection | None = None
        self.url, self.key, self.project = url, key, project
        self.parts = urlsplit(url.rstrip("/"))
        if self.parts.scheme not in ("http", "https") or not self.parts.hostname or self.parts.port == 0:
            raise ValueError

    def __del__(self) -> None:
        if self.connection:
            self.connection.close()

    def post(self, body: bytes) -> Answer:
        """Post a batch. Raises OSError if nothing is answered."""
        return self._ask("POST", "/api/ingest?onError=skip", body)

    def get(self, path: str) -> Answer:
        """Ask for something. Raises OSError if nothing is answered."""
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        from http.client import HTTPException

        headers = {"User-Agent": "runtally-client-python"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        connection = self.connection = self.connection or self._connect()
        is_used = connection.sock is not None
        try:
            connection.request(method, f"{self.parts.path}{path}", body, headers)
            response = connection.getresponse()
            text = response.read(MAX_ANSWER_BYTES)
        except (OSError, ValueError, HTTPException) as error:
            connection.close()
            if is_used:  # The server may have closed it while it was idle: once more with a new one.
                return self._ask(method, path, body)
            raise OSError from error
        return Answer(response.status, _seconds(response.getheader("Retry-After")), _json(text))

    def _connect(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.request import getproxies, proxy_bypass

        kind = HTTPSConnection if self.parts.scheme == "https" else HTTPConnection
        host = self.parts.hostname or ""
        proxy = urlsplit("" if proxy_bypass(host) else getproxies().get(self.parts.scheme, ""))
        connection = kind(
            proxy.hostname or host, proxy.port if proxy.hostname else self.parts.port, timeout=TIMEOUT_SECONDS
        )
        if proxy.hostname:
            connection.set_tunnel(host, self.parts.port)
        return connection


def _json(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, min(float(text or 0), LONGEST_RETRY_AFTER_SECONDS))
    except ValueError:  # A date, as proxies write it.
        return 0.0

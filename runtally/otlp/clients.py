"""Count OTLP requests by client: first, last, number, and the outcomes of their records.

The counts explain to a sender why no runs appear. They are written every few seconds at most, not with each request.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.models.otlp import Client
from runtally.otlp.queries import upsert_clients

MAX_KEPT = 500
"""The most clients that are counted between two writes; others are not counted."""
_MAX_CHARS = 100
_UNNAMED = "(unnamed)"


class Tally(msgspec.Struct):
    """The outcomes of the records of one origin in a request."""

    requests: int = 1
    records: int = 0
    runs: int = 0
    twins: int = 0
    rejected: int = 0
    no_calls: int = 0
    told_elsewhere: int = 0

    def add(self, other: "Tally") -> None:
        """Add the records of another origin of the same request."""
        requests = self.requests
        _sum(self, other)
        self.requests = requests


class ClientCounter(Protocol):
    """What counts the requests of clients."""

    def add(self, project_id: str, service: object, exporter: str, signal: str, tally: Tally) -> None:
        """Count the records of one origin in a request."""


class ClientCounts:
    """The counts of this process since the last write."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: dict[tuple[str, str, str, str], Client] = {}

    def add(self, project_id: str, service: object, exporter: str, signal: str, tally: Tally) -> None:
        """Count the records of one origin in a request."""
        now = self._clock()
        named = service.strip() if isinstance(service, str) else ""
        key = project_id, _short(named), _short(exporter.partition("/")[0].strip()), signal
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MAX_KEPT:
                return
            client = self._clients[key] = Client(*key, first_at=now, last_at=now)
        client.last_at = now
        _sum(client, tally)

    async def write(self, database: Database) -> None:
        """Write the counts. Raises `StoreUnavailable`, and then keeps them for the next time."""
        taken, self._clients = self._clients, {}
        if not taken:
            return
        try:
            async with database.connection() as connection:
                await upsert_clients(connection, list(taken.values()))
        except BaseException:
            self._put_back(taken.values())
            raise

    def _put_back(self, clients: Iterable[Client]) -> None:
        """Keep counts that could not be written until the next time."""
        for client in clients:
            since = self._clients.get(client.key)
            if since is not None:
                client.last_at = since.last_at
                _sum(client, since)
            if since is not None or len(self._clients) < MAX_KEPT:
                self._clients[client.key] = client


def _sum(client: Client | Tally, other: Client | Tally) -> None:
    for name in Tally.__struct_fields__:
        setattr(client, name, getattr(client, name) + getattr(other, name))


def _short(text: str) -> str:
    return text[:_MAX_CHARS].replace("\0", "") or _UNNAMED

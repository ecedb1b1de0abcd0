"""Count OTLP requests by client: first, last, number, and the outcomes of their records.

The counts explain to a sender why no runs appear. They are written every few seconds at most, not with each request.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from runtally.clock import Clock
from runtally.db.bulk import document, insert, sent_rows
from runtally.db.database import Connection, Database
from runtally.models.otlp import Client, OtlpClient

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


MAX_CLIENTS = 1_000
"""The most clients in all. Senders may choose any name, so further ones are counted together."""
OTHERS = "(others)"

_SUMMED = ("requests", "records", "runs", "twins", "rejected", "no_calls", "told_elsewhere")
_SUMS = ", ".join(f"{name} = otlp_clients.{name} + excluded.{name}" for name in _SUMMED)
_KEY = "project_id, service, exporter, signal"

# A new client is counted under "others" if there is no room for more.
UPSERT_CLIENTS = f"""
WITH sent AS MATERIALIZED (
{sent_rows(OtlpClient)}
),
room AS (SELECT count(*) < $2::int AS is_left FROM otlp_clients),
named AS (
  SELECT CASE WHEN is_known THEN project_id ELSE $3 END AS project_id,
         CASE WHEN is_known THEN service ELSE $3 END AS service,
         CASE WHEN is_known THEN exporter ELSE $3 END AS exporter,
         signal, first_at, last_at, {", ".join(_SUMMED)}
    FROM sent,
         room,
 LATERAL (SELECT room.is_left
              OR EXISTS (SELECT FROM otlp_clients AS known
                          WHERE known.project_id = sent.project_id AND known.service = sent.service
                            AND known.exporter = sent.exporter AND known.signal = sent.signal) AS is_known) AS known
),
summed AS (
  SELECT {_KEY}, min(first_at) AS first_at, max(last_at) AS last_at,
         {", ".join(f"sum({name})::bigint AS {name}" for name in _SUMMED)}
    FROM named
GROUP BY {_KEY}
ORDER BY {_KEY}
)
{insert(OtlpClient, "summed", on_conflict=f"({_KEY}) DO UPDATE SET last_at = greatest(otlp_clients.last_at, excluded.last_at), {_SUMS}", returning="project_id")}
"""

SELECT_CLIENTS = f"""
  SELECT {_KEY}, first_at, last_at, {", ".join(_SUMMED)}
    FROM otlp_clients
   WHERE $1::text IS NULL OR project_id = $1
ORDER BY last_at DESC, {_KEY}
   LIMIT $2
"""

SELECT_COUNTED = """
  SELECT trace_id,
         coalesce(sum(input_tokens), 0) AS input, coalesce(sum(output_tokens), 0) AS output,
         coalesce(sum(cached_input_tokens), 0) AS cached, coalesce(sum(cache_write_tokens), 0) AS written
    FROM runs
   WHERE project_id = $1
     AND trace_id = ANY($2)
GROUP BY trace_id
"""


async def upsert_clients(connection: Connection, clients: Sequence[Client]) -> None:
    """Add the counts since the last write."""
    await connection.execute(UPSERT_CLIENTS, document(clients), MAX_CLIENTS, OTHERS)


async def select_clients(connection: Connection, project_id: str | None, limit: int) -> tuple[Client, ...]:
    """Read the clients of a project, or of all, the latest first."""
    rows = await connection.fetch(SELECT_CLIENTS, project_id, limit)
    return tuple(Client(**row) for row in rows)


async def select_counted(
    connection: Connection, project_id: str, trace_ids: Collection[str]
) -> dict[str, dict[str, int]]:
    """Read the tokens of all runs of each trace, by the names of `agents.metrics`. A trace without runs is left out."""
    rows = [dict(row) for row in await connection.fetch(SELECT_COUNTED, project_id, list(trace_ids))]
    return {row.pop("trace_id"): {name: int(tokens) for name, tokens in row.items()} for row in rows}

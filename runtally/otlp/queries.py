"""SQL of the counts of OTLP requests by client."""

from collections.abc import Collection, Sequence

from runtally.db.bulk import document, insert, sent_rows
from runtally.db.database import Connection
from runtally.models.otlp import Client, OtlpClient

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

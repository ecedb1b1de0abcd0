"""Figures that only single runs have: costs that were reported beside those computed, and refused requests by model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial, reduce
from operator import add
from typing import NamedTuple
from uuid import UUID

from runtally.db.database import Connection
from runtally.runs.run_groups import GroupKind, RunGroup, select_figures
from runtally.usage.conditions import Conditions
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.reader import UsageReader
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import Window

# A run without a cost has nothing to compare.
_SELECT_REPORTED = """
  SELECT agent, count(*) AS runs, sum(reported_usd) AS reported_usd, sum(cost_usd) AS computed_usd
    FROM (SELECT metadata ->> 'agent' AS agent,
                 cost_usd,
                 CASE jsonb_typeof(metadata -> 'reportedCostUSD')
                   WHEN 'number' THEN (metadata ->> 'reportedCostUSD')::numeric
                   ELSE reported_cost_usd
                 END AS reported_usd
            FROM runs
           WHERE {walk} AND {keep}) AS sent
   WHERE reported_usd > 0 AND cost_usd IS NOT NULL
GROUP BY agent
"""

# A code is a status of HTTP or the name of a class.
_SELECT_REFUSED = """
  SELECT model,
         count(*) FILTER (WHERE error_code = '429' OR error_code ~* 'rate_?limit') AS limited,
         count(*) FILTER (WHERE error_code ~ '^5[0-9][0-9]$' OR error_code ~* 'server_?error|unavailable|overloaded') AS broken
    FROM runs
   WHERE {walk} AND {keep} AND status <> 'success'
GROUP BY model
"""


class Reported(NamedTuple):
    """The runs whose agent reported a cost: the sum of these costs, and of those that were computed for the same runs."""

    runs: int = 0
    reported_usd: Decimal = Decimal(0)
    computed_usd: Decimal = Decimal(0)

    def __add__(self, other: "Reported") -> "Reported":  # type: ignore[override]  # Not one tuple after the other.
        return Reported(*map(add, self, other))


class Refused(NamedTuple):
    """Failed runs of a model."""

    limited: int = 0
    """Those past a rate limit: 429."""
    broken: int = 0
    """Those with an error of the provider: 5xx."""

    def __add__(self, other: "Refused") -> "Refused":  # type: ignore[override]  # Not one tuple after the other.
        return Refused(*map(add, self, other))


async def select_reported(
    connection: Connection, run_filter: RunFilter, span: TimeSpan
) -> Mapping[str | None, Reported]:
    """Read the reported costs of each agent; None is the runs without one."""
    found = Conditions.of(run_filter).during(*span)
    rows = await connection.fetch(_SELECT_REPORTED.format(walk=found.walk, keep=found.keep), *found.values)
    return {agent: Reported(*rest) for agent, *rest in rows}


async def select_refused(connection: Connection, run_filter: RunFilter, span: TimeSpan) -> Mapping[str, Refused]:
    """Read how many requests of each model failed past a limit, or by the provider's fault."""
    # The index of failed runs leads to them, unless the filter asks for others.
    found = Conditions.of(run_filter.replace(status=run_filter.status or Outcome.FAILED)).during(*span)
    rows = await connection.fetch(_SELECT_REFUSED.format(walk=found.walk, keep=found.keep), *found.values)
    return {model: Refused(*rest) for model, *rest in rows}


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """Figures of coding agents that only single runs have."""

    reported: Mapping[str | None, Reported]
    """The reported costs of each agent; None is the runs without one."""
    refused: Mapping[str, Refused]
    """The refused requests of each model."""
    sessions: Mapping[str, RunGroup]
    """When some sessions began and ended."""

    @property
    def reported_by_all(self) -> Reported:
        return reduce(add, self.reported.values(), Reported())


async def read_agent_figures(
    reader: UsageReader, run_filter: RunFilter, window: Window, session_ids: Sequence[str]
) -> AgentFigures:
    """Read the figures of a project's window; those of closed days once. The reader's statements must see one moment."""
    added, connection = reader.only.added_by_days, reader.connection
    reported = await added(("reported", run_filter), window, partial(select_reported, connection, run_filter))
    refused = await added(("refused", run_filter), window, partial(select_refused, connection, run_filter))
    span = TimeSpan(window.start, window.until)
    sessions = await select_figures(connection, reader.project_id or "", GroupKind.SESSION, span, session_ids)
    return AgentFigures(reported, refused, sessions)


# Rollups have no reported costs, so these are read from a limited number of runs.
SELECT_DRIFTS = """
  SELECT provider,
         model,
         client,
         CASE WHEN client IS NULL THEN key_id END AS key_id,
         count(*) AS runs,
         sum(reported_cost_usd) AS reported_usd,
         sum(cost_usd) AS computed_usd
    FROM (SELECT provider,
                 model,
                 key_id,
                 coalesce(metadata ->> 'agent', metadata ->> 'instrumentation') AS client,
                 cost_usd,
                 cost_source,
                 reported_cost_usd
            FROM runs
           WHERE project_id = $1
             AND occurred_at >= $2
        ORDER BY occurred_at DESC
           LIMIT $3) AS latest
   WHERE cost_source = 'catalog'
     AND reported_cost_usd > 0
GROUP BY 1, 2, 3, 4
ORDER BY abs(sum(cost_usd) - sum(reported_cost_usd)) DESC, provider, model, client, 4
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """Runs of a model and a client whose cost was both computed and reported."""

    provider: str
    model: str
    client: str | None
    """The coding agent or the instrumentation that recorded them."""
    key_id: UUID | None
    """The key that sent them, of others."""
    runs: int
    reported_usd: Decimal
    computed_usd: Decimal


async def select_drifts(connection: Connection, project_id: str, since: datetime, most: int) -> tuple[Drift, ...]:
    """Read the drift of each model and client over the latest runs, at most `most`; the largest difference first."""
    rows = await connection.fetch(SELECT_DRIFTS, project_id, since, most)
    return tuple(Drift(*row) for row in rows)

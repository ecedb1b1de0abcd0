"""Find the runs whose stored cost differs from their cost at current prices, and change it.

The same statement changes the rollups and the relay's queue. Runs whose cost was unknown when they were stored are priced
once the registry has a price for them.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog

from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.db.outbox import enqueue
from runtally.models.run import CostSource
from runtally.pricing.book import LivePrices, PriceBook
from runtally.pricing.cost import Cost, resolve_cost
from runtally.units import COUNT_COLUMNS, Usage
from runtally.usage.store import ROLLUP_INPUT_COLUMNS, rollup_ctes

# A run whose own model has no price is priced by the model that answered.
_ANSWERED_BY = "CASE WHEN jsonb_typeof(metadata -> 'responseModel') = 'string' THEN metadata ->> 'responseModel' END"
SELECT_UNPRICED_NAMES = f"""
  SELECT DISTINCT project_id,
         provider,
         unnest(ARRAY[model, {_ANSWERED_BY}]) AS model
    FROM runs
   WHERE cost_usd IS NULL
ORDER BY project_id, provider, model
"""

_COUNTS = ",\n         ".join(COUNT_COLUMNS)
_PRICED = f"""
  SELECT id,
         occurred_at,
         provider,
         model,
         {_ANSWERED_BY} AS answered_by,
         version,
         reported_cost_usd,
         cost_usd,
         cost_source,
         cost_estimated,
         price_entry_id,
         cache_savings_usd,
         cost_is_minimum,
         without_usage,
         service_tier,
         region,
         {_COUNTS},
         units
    FROM runs
   WHERE project_id = $1"""

# Statements on runs name one project: each index of runs leads with it.
SELECT_UNPRICED = f"""{_PRICED}
     AND cost_usd IS NULL
     AND created_at <= $2
     AND id > $3
ORDER BY id
   LIMIT $4
"""

# In the order of time, so that the runs of a chunk are in few buckets of the rollups.
SELECT_COMPUTED = f"""{_PRICED}
     AND (occurred_at, id) > ($2, $3)
     AND ($4::timestamptz IS NULL OR occurred_at < $4)
     AND ($5::text IS NULL OR provider = $5)
     AND ($6::text IS NULL OR model = $6)
     AND cost_source IS DISTINCT FROM 'provider'
ORDER BY occurred_at, id
   LIMIT $7
"""

# The columns as they were before the change.
_BEFORE = [
    {
        "cost_usd": "before_usd",
        "cost_estimated": "before_estimated",
        "cache_savings_usd": "before_savings_usd",
        "cost_is_minimum": "before_minimum",
        "without_usage": "before_without_usage",
    }.get(name, name)
    for name in ROLLUP_INPUT_COLUMNS
]

# A run that was changed by somebody else meanwhile has another version, and is left alone.
UPDATE_COSTS = f"""
WITH changed AS (
     UPDATE runs
        SET cost_usd = priced.cost_usd,
            cost_source = priced.cost_source,
            cost_estimated = priced.cost_estimated,
            price_entry_id = priced.price_entry_id,
            cache_savings_usd = priced.cache_savings_usd,
            cost_is_minimum = priced.cost_is_minimum,
            without_usage = priced.without_usage,
            version = runs.version + 1
       FROM unnest($2::text[], $3::numeric[], $4::text[], $5::boolean[], $6::bigint[], $7::numeric[], $8::boolean[],
                   $9::boolean[], $10::numeric[], $11::boolean[], $12::numeric[], $13::boolean[], $14::boolean[],
                   $15::integer[])
            AS priced (id, cost_usd, cost_source, cost_estimated, price_entry_id, cache_savings_usd, cost_is_minimum,
                       without_usage, before_usd, before_estimated, before_savings_usd, before_minimum,
                       before_without_usage, version)
      WHERE runs.project_id = $1
        AND runs.id = priced.id
        AND runs.version = priced.version
  RETURNING runs.id, runs.version, before_usd, before_estimated, before_savings_usd, before_minimum,
            before_without_usage, {", ".join(f"runs.{name}" for name in ROLLUP_INPUT_COLUMNS)}
),
queued AS ({enqueue("(SELECT * FROM changed ORDER BY id) AS changed", now="$16::timestamptz", when="$17::boolean")}
),
weighed AS (
     SELECT {", ".join(ROLLUP_INPUT_COLUMNS)}, 1 AS weight
       FROM changed
  UNION ALL
     SELECT {", ".join(_BEFORE)}, -1
       FROM changed
),
{rollup_ctes("weighed", now="$16::timestamptz", weight="weight")}
SELECT count(*)
  FROM changed
"""


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A stored run: its cost, and everything that the cost depends on."""

    id: str
    occurred_at: datetime
    provider: str
    model: str
    answered_by: str | None
    version: int
    reported: Decimal | None
    cost: Cost
    service_tier: str | None
    region: str | None
    usage: Usage

    @property
    def input_tokens(self) -> int | None:
        return self.usage.input_tokens


@dataclass(frozen=True, slots=True)
class Recost:
    """A run and the cost that it should have."""

    run: PricedRun
    cost: Cost


@dataclass(frozen=True, slots=True)
class RunCursor:
    """The runs of a project to recost, and after which of them to go on."""

    project_id: str
    after: datetime
    after_id: str
    until: datetime | None
    provider: str | None
    model: str | None


async def select_unpriced_names(connection: Connection) -> dict[str, list[tuple[str, str]]]:
    """Provider and model of the runs that wait for a price, by project."""
    names: dict[str, list[tuple[str, str]]] = {}
    for row in await connection.fetch(SELECT_UNPRICED_NAMES):
        if row["model"] is None:
            continue
        names.setdefault(row["project_id"], []).append((row["provider"], row["model"]))
    return names


async def select_unpriced(
    connection: Connection, project_id: str, *, stored_until: datetime, after: str, limit: int
) -> tuple[PricedRun, ...]:
    """The next unpriced runs of the project in the order of their ids."""
    rows = await connection.fetch(SELECT_UNPRICED, project_id, stored_until, after, limit)
    return tuple(_run(tuple(row)) for row in rows)


async def select_computed(connection: Connection, cursor: RunCursor, limit: int) -> tuple[PricedRun, ...]:
    """The next runs in the order of time, without those whose cost is the provider's word."""
    rows = await connection.fetch(
        SELECT_COMPUTED,
        cursor.project_id,
        cursor.after,
        cursor.after_id,
        cursor.until,
        cursor.provider,
        cursor.model,
        limit,
    )
    return tuple(_run(tuple(row)) for row in rows)


async def update_costs(
    connection: Connection, project_id: str, recosts: Sequence[Recost], now: datetime, *, queued: bool
) -> int:
    """Set the costs, queue the runs for the relay, and return how many were still unchanged by others."""
    if not recosts:
        return 0
    columns = zip(
        *(
            (
                each.run.id,
                each.cost.total_usd,
                each.cost.source,
                each.cost.estimated,
                each.cost.entry_id,
                each.cost.cache_savings_usd,
                each.cost.is_minimum,
                each.cost.without_usage,
                each.run.cost.total_usd,
                each.run.cost.estimated,
                each.run.cost.cache_savings_usd,
                each.run.cost.is_minimum,
                each.run.cost.without_usage,
                each.run.version,
            )
            for each in recosts
        ),
        strict=True,
    )
    return int(await connection.fetchval(UPDATE_COSTS, project_id, *columns, now, queued))


def _run(row: tuple[Any, ...]) -> PricedRun:
    usd, source, *rest, tier, region = row[7:16]
    cost = Cost(usd, CostSource(source) if source else None, *rest)
    id_, occurred_at, provider, model, answered_by, version, reported = row[:7]
    usage = Usage(*row[16:])
    return PricedRun(id_, occurred_at, provider, model, answered_by, version, reported, cost, tier, region, usage)


def recosts_of(runs: Iterable[PricedRun], book: PriceBook, project_id: str) -> list[Recost]:
    """List the runs of a project whose cost at current prices differs, except runs whose provider reported the cost."""
    found = []
    for run in runs:
        cost = resolve_cost(
            run.usage, book.price_of(run, project_id), direct=False, reported=run.reported, upstream_reported=None
        )
        if cost != run.cost:
            found.append(Recost(run, cost))
    return found


CHUNK = 1000
"""Runs to a statement: each is a short transaction of its own, so that ingest never waits for long."""
# After this time every process has the new book, and has committed the runs it priced with the old one.
AGAIN_SECONDS = 15.0

# The clock of the worker that stored a run may be ahead of this one's.
MOST_AHEAD = timedelta(hours=1)

log = structlog.get_logger()


async def price_unpriced(connection: Connection, book: PriceBook, now: datetime, *, queued: bool = True) -> int:
    """Price the runs stored until `now`, or by a clock that is ahead, that a price is known for; return how many those were.

    Priced runs are queued for the relay, unless `queued` says that there is none.

    May be run again at any time, also after it broke off and while another does the same: a run is priced once.
    """
    priced = 0
    for project_id, names in (await select_unpriced_names(connection)).items():
        if any(book.knows(provider, model, project_id) for provider, model in names):
            priced += await _price_project(connection, book, project_id, now, queued=queued)
    return priced


async def _price_project(
    connection: Connection, book: PriceBook, project_id: str, now: datetime, *, queued: bool
) -> int:
    priced, after, until = 0, "", now + MOST_AHEAD
    while runs := await select_unpriced(connection, project_id, stored_until=until, after=after, limit=CHUNK):
        after = runs[-1].id
        priced += await update_costs(connection, project_id, recosts_of(runs, book, project_id), now, queued=queued)
        if len(runs) < CHUNK:
            # Else it would go on as long as a few come in all the time.
            break
    return priced


class UnpricedRuns:
    """Prices runs whenever the registry has changed, and again a little later.

    The second time no process uses the old prices any more.
    """

    def __init__(
        self,
        database: Database,
        prices: LivePrices,
        clock: Clock,
        *,
        queued: bool,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._prices = prices
        self._clock = clock
        self._queued = queued
        self._seconds = seconds
        self._version = PriceBook().version
        self._due_at: list[float] = []

    async def work(self) -> int:
        """Price what is due, and return how many runs that were. Work that fails is due again the next time."""
        book, now = self._prices.book, self._seconds()
        if book.version != self._version:
            self._version, self._due_at = book.version, [now, now + AGAIN_SECONDS]
        if not self._due_at or self._due_at[0] > now:
            return 0
        async with self._database.connection() as connection:
            priced = await price_unpriced(connection, book, self._clock(), queued=self._queued)
        del self._due_at[0]
        if priced:
            log.info("unpriced_runs_priced", runs=priced)
        return priced

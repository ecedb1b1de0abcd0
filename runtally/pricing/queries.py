"""SQL of prices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from operator import attrgetter

import asyncpg

from runtally.db.database import Connection
from runtally.db.outbox import queueing
from runtally.models.price import Match, PriceSource
from runtally.money import pico_per_token
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.cost import Cost, Price, Usage
from runtally.pricing.match import Offer
from runtally.rollups.rolling import READ, rolling

SELECT_OFFERS = """
  SELECT id,
         provider,
         model,
         aliases,
         match,
         pattern,
         above_input_tokens,
         input_per_million,
         output_per_million,
         cache_read_per_million,
         cache_write_per_million,
         reasoning_per_million,
         effective_from,
         effective_to,
         estimated,
         source
    FROM price_entries
ORDER BY id
"""

# A condition on a subquery without a limit reaches the table, so this is a look-up by the key.
SELECT_OFFER = f"""
SELECT *
  FROM ({SELECT_OFFERS}) AS offers
 WHERE id = $1
"""  # noqa: S608  # A statement of ours.

# Reads three numbers so that nothing slips through: a deletion changes the count, an insertion the greatest id, and a
# change that commits after a newer one still changes the sum.
SELECT_VERSION = """
SELECT count(*)::text
       || '-' || coalesce(max(id), 0)::text
       || '-' || coalesce(sum(extract(epoch FROM updated_at)), 0)::text
  FROM price_entries
"""


async def select_version(connection: Connection) -> str:
    """A text that differs whenever the registry differs."""
    return str(await connection.fetchval(SELECT_VERSION))


async def select_offers(connection: Connection) -> tuple[Offer, ...]:
    return tuple(_offer(row) for row in await connection.fetch(SELECT_OFFERS))


async def select_offer(connection: Connection, entry_id: int) -> Offer | None:
    row = await connection.fetchrow(SELECT_OFFER, entry_id)
    return _offer(row) if row else None


def _offer(row: asyncpg.Record) -> Offer:
    return Offer(
        price=Price(
            id=row["id"],
            provider=row["provider"],
            model=row["model"],
            above_input_tokens=row["above_input_tokens"],
            input_pico=_pico(row["input_per_million"]),
            output_pico=_pico(row["output_per_million"]),
            cache_read_pico=_pico(row["cache_read_per_million"]),
            cache_write_pico=_pico(row["cache_write_per_million"]),
            reasoning_pico=_pico(row["reasoning_per_million"]),
            estimated=row["estimated"],
            effective_from=row["effective_from"],
            effective_to=row["effective_to"],
        ),
        aliases=tuple(row["aliases"]),
        match=Match(row["match"]),
        pattern=row["pattern"],
        source=PriceSource(row["source"]),
    )


def _pico(per_million: Decimal | None) -> int | None:
    return None if per_million is None else pico_per_token(per_million)


# The transaction that writes the catalogue is the only one at a time; another waits, and then finds nothing to do.
LOCK_CATALOGUE = """
SELECT pg_advisory_xact_lock(hashtext('runtally price catalogue'))
"""

SELECT_SEEDED = """
SELECT EXISTS (SELECT
                 FROM price_entries
                WHERE catalogue_key IS NOT NULL)
"""

SELECT_KNOWN = """
SELECT id,
       provider,
       model,
       aliases,
       match,
       pattern,
       above_input_tokens,
       input_per_million,
       output_per_million,
       cache_read_per_million,
       cache_write_per_million,
       reasoning_per_million,
       effective_from,
       effective_to,
       estimated,
       source,
       catalogue_key,
       note
  FROM price_entries
 WHERE catalogue_key IS NOT NULL
"""

INSERT_ENTRY = """
INSERT INTO price_entries
            (provider, model, aliases, match, pattern, above_input_tokens,
             input_per_million, output_per_million, cache_read_per_million, cache_write_per_million,
             reasoning_per_million, effective_from, effective_to, estimated, catalogue_key, note,
             source, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 'catalogue', $17, $17)
"""

# An amount is never overwritten: the runs that it priced point here.
UPDATE_ENTRY = """
UPDATE price_entries
   SET model = $2,
       aliases = $3,
       match = $4,
       pattern = $5,
       effective_to = $6,
       estimated = $7,
       note = $8,
       updated_at = $9
 WHERE id = $1
"""

# Without its key a sync does not see it again.
RETIRE_ENTRY = """
UPDATE price_entries
   SET effective_to = $2,
       catalogue_key = NULL,
       updated_at = $3
 WHERE id = $1
"""

# In the order of the parameters.
_INSERTED = attrgetter(
    "provider", "model", "aliases", "match", "pattern", "above_input_tokens", "input_per_million",
    "output_per_million", "cache_read_per_million", "cache_write_per_million", "reasoning_per_million",
    "effective_from", "effective_to", "estimated", "catalogue_key", "note",
)  # fmt: skip
_UPDATED = attrgetter("model", "aliases", "match", "pattern", "effective_to", "estimated", "note")


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A row that came from the catalogue, whoever it belongs to now."""

    id: int
    entry: CatalogueEntry
    source: PriceSource


async def lock_catalogue(connection: Connection) -> None:
    """Wait for the other process that writes the catalogue; holds until the transaction ends."""
    await connection.execute(LOCK_CATALOGUE)


async def select_seeded(connection: Connection) -> bool:
    return bool(await connection.fetchval(SELECT_SEEDED))


async def select_known(connection: Connection) -> dict[str, KnownEntry]:
    """The rows that came from the catalogue, by their key in it."""
    return {row["catalogue_key"]: _known(row) for row in await connection.fetch(SELECT_KNOWN)}


async def insert_entries(connection: Connection, entries: Iterable[CatalogueEntry], now: datetime) -> None:
    rows = [(*_INSERTED(entry), now) for entry in entries]
    await connection.executemany(INSERT_ENTRY, rows)


async def update_entries(connection: Connection, entries: Iterable[tuple[int, CatalogueEntry]], now: datetime) -> None:
    """All but the amounts and the start of the period."""
    rows = [(number, *_UPDATED(entry), now) for number, entry in entries]
    await connection.executemany(UPDATE_ENTRY, rows)


async def retire_entries(connection: Connection, ends: Iterable[tuple[int, datetime | None]], now: datetime) -> None:
    """Give the rows that end and take their key."""
    await connection.executemany(RETIRE_ENTRY, [(number, end, now) for number, end in ends])


def _known(row: asyncpg.Record) -> KnownEntry:
    values = dict(row)
    number, source = values.pop("id"), values.pop("source")
    values["aliases"] = tuple(values["aliases"])
    return KnownEntry(number, CatalogueEntry(**values), PriceSource(source))


SELECT_UNPRICED_NAMES = """
  SELECT DISTINCT project_id,
         provider,
         model
    FROM runs
   WHERE cost_usd IS NULL
ORDER BY project_id, provider, model
"""

# Statements on runs name one project, so that they also work where runs are distributed by it.
SELECT_UNPRICED = """
  SELECT id,
         occurred_at,
         provider,
         model,
         input_tokens,
         output_tokens,
         cached_input_tokens,
         cache_write_tokens,
         reasoning_tokens
    FROM runs
   WHERE project_id = $1
     AND cost_usd IS NULL
     AND created_at <= $2
     AND id > $3
ORDER BY id
   LIMIT $4
"""

# What the runs were before: without a cost.
_WITHOUT_COST = [{"cost_usd": "NULL", "cost_estimated": "NULL"}.get(name, name) for name in READ]

UPDATE_COSTS = f"""
WITH changed AS (
     UPDATE runs
        SET cost_usd = priced.cost_usd,
            cost_source = priced.cost_source,
            cost_estimated = priced.cost_estimated,
            price_entry_id = priced.price_entry_id,
            version = version + 1
       FROM unnest($2::text[], $3::numeric[], $4::text[], $5::boolean[], $6::bigint[])
            AS priced (id, cost_usd, cost_source, cost_estimated, price_entry_id)
      WHERE runs.project_id = $1
        AND runs.id = priced.id
        AND runs.cost_usd IS NULL
  RETURNING runs.id, runs.version, {", ".join(f"runs.{name}" for name in READ)}
),
queued AS ({queueing("(SELECT * FROM changed ORDER BY id) AS changed", now="$7::timestamptz", when="$8::boolean")}
),
weighed AS (
     SELECT {", ".join(READ)}, 1 AS weight
       FROM changed
  UNION ALL
     SELECT {", ".join(_WITHOUT_COST)}, -1
       FROM changed
),
{rolling("weighed", now="$7::timestamptz", weight="weight")}
SELECT count(*)
  FROM changed
"""  # noqa: S608  # No value is in it: names and placeholders of the declaration.


@dataclass(frozen=True, slots=True)
class UnpricedRun:
    """A run that waits for a price."""

    id: str
    occurred_at: datetime
    provider: str
    model: str
    usage: Usage


async def select_unpriced_names(connection: Connection) -> dict[str, list[tuple[str, str]]]:
    """Provider and model of the runs that wait for a price, by project."""
    names: dict[str, list[tuple[str, str]]] = {}
    for row in await connection.fetch(SELECT_UNPRICED_NAMES):
        names.setdefault(row["project_id"], []).append((row["provider"], row["model"]))
    return names


async def select_unpriced(
    connection: Connection, project_id: str, *, stored_until: datetime, after: str, limit: int
) -> tuple[UnpricedRun, ...]:
    """The next unpriced runs of the project in the order of their ids."""
    rows = await connection.fetch(SELECT_UNPRICED, project_id, stored_until, after, limit)
    return tuple(
        UnpricedRun(run_id, occurred_at, provider, model, Usage(*counts))
        for run_id, occurred_at, provider, model, *counts in rows
    )


async def update_costs(
    connection: Connection, project_id: str, costs: Mapping[str, Cost], now: datetime, *, queued: bool
) -> int:
    """Set the costs of unpriced runs by id, and queue them for the relay; says how many were still unpriced."""
    columns = zip(
        *((cost.total_usd, cost.source, cost.estimated, cost.entry_id) for cost in costs.values()), strict=True
    )
    return int(await connection.fetchval(UPDATE_COSTS, project_id, list(costs), *columns, now, queued))


SELECT_LISTED = """
  SELECT provider,
         model,
         above_input_tokens,
         input_per_million,
         output_per_million,
         cache_read_per_million,
         effective_from,
         effective_to,
         estimated,
         source
    FROM price_entries
   WHERE ($1::text[] IS NULL OR provider = ANY($1))
     AND ($2::text IS NULL
          OR strpos(lower(model), lower($2)) > 0
          OR EXISTS (SELECT FROM unnest(aliases) AS alias WHERE strpos(lower(alias), lower($2)) > 0))
ORDER BY provider, model, above_input_tokens, effective_from NULLS FIRST, id
   LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price entry as people read it: US dollars per million tokens."""

    provider: str
    model: str
    above_input_tokens: int
    input_per_million: Decimal | None
    output_per_million: Decimal | None
    cache_read_per_million: Decimal | None
    effective_from: datetime | None
    effective_to: datetime | None
    estimated: bool
    source: str


async def select_listed(
    connection: Connection, *, providers: Sequence[str] | None, model: str | None, limit: int | None
) -> tuple[ListedPrice, ...]:
    """The entries of these providers with that text in a name; None: of all, with any, without a limit."""
    rows = await connection.fetch(SELECT_LISTED, providers, model, limit)
    return tuple(ListedPrice(*row) for row in rows)

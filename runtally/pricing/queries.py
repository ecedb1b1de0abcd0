"""SQL of prices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from operator import attrgetter

import asyncpg

from runtally.db.database import Connection
from runtally.models.price import Match, PriceSource
from runtally.models.rollup import EVERYTHING, GRAINS
from runtally.money import pico_per_token
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.cost import THOUSAND, Price
from runtally.pricing.discount import Discount
from runtally.pricing.match import Offer

_OFFER = """
  SELECT id,
         project_id,
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
         per_thousand_requests,
         effective_from,
         effective_to,
         estimated,
         source
    FROM price_entries
"""
SELECT_OFFERS = f"""{_OFFER}
   WHERE withdrawn_at IS NULL
ORDER BY id
"""

# Also one that was withdrawn: runs that it priced go on naming it.
SELECT_OFFER = f"""{_OFFER}
   WHERE id = $1
"""

# Reads three numbers of each table so that nothing slips through: a deletion changes the count, an insertion the greatest id, and a
# change that commits after a newer one still changes the sum.
_VERSION = """SELECT count(*)::text
               || '-' || coalesce(max(id), 0)::text
               || '-' || coalesce(sum(extract(epoch FROM updated_at)), 0)::text
          FROM"""
SELECT_VERSION = f"""
SELECT ({_VERSION} price_entries)
       || '/' || ({_VERSION} project_discounts)
"""

SELECT_DISCOUNTS = """
  SELECT project_id,
         provider,
         percent,
         effective_from,
         effective_to
    FROM project_discounts
   WHERE $1::text IS NULL OR project_id = $1
ORDER BY id
"""


async def select_version(connection: Connection) -> str:
    """A text that differs whenever the registry differs."""
    return str(await connection.fetchval(SELECT_VERSION))


async def select_offers(connection: Connection) -> tuple[Offer, ...]:
    return tuple(_offer(row) for row in await connection.fetch(SELECT_OFFERS))


async def select_discounts(connection: Connection, project_id: str | None = None) -> tuple[Discount, ...]:
    """Of one project or of all."""
    return tuple(Discount(*row) for row in await connection.fetch(SELECT_DISCOUNTS, project_id))


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
            request_pico=THOUSAND * (_pico(row["per_thousand_requests"]) or 0),
        ),
        aliases=tuple(row["aliases"]),
        match=Match(row["match"]),
        pattern=row["pattern"],
        source=PriceSource(row["source"]),
        project_id=row["project_id"],
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
       per_thousand_requests,
       effective_from,
       effective_to,
       estimated,
       source,
       coalesce(catalogue_key, '') AS catalogue_key,
       note,
       withdrawn_at IS NOT NULL AS is_withdrawn
  FROM price_entries
 WHERE project_id IS NULL
   AND (withdrawn_at IS NULL OR catalogue_key IS NOT NULL)
"""

INSERT_ENTRY = """
INSERT INTO price_entries
            (provider, model, aliases, match, pattern, above_input_tokens,
             input_per_million, output_per_million, cache_read_per_million, cache_write_per_million,
             reasoning_per_million, per_thousand_requests, effective_from, effective_to, estimated, catalogue_key, note,
             source, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'catalogue', $18, $18)
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
   SET effective_to = least(effective_to, $2),
       catalogue_key = NULL,
       updated_at = $3
 WHERE id = $1
"""

WITHDRAW_ENTRY = """
UPDATE price_entries
   SET withdrawn_at = $2,
       catalogue_key = NULL,
       updated_at = $2
 WHERE id = $1
"""

DEFER_OVERLAPS = "SET CONSTRAINTS ex_price_entries_overlap DEFERRED"

# In the order of the parameters.
_INSERTED = attrgetter(
    "provider", "model", "aliases", "match", "pattern", "above_input_tokens", "input_per_million",
    "output_per_million", "cache_read_per_million", "cache_write_per_million", "reasoning_per_million",
    "per_thousand_requests", "effective_from", "effective_to", "estimated", "catalogue_key", "note",
)  # fmt: skip
_UPDATED = attrgetter("model", "aliases", "match", "pattern", "effective_to", "estimated", "note")


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A row for everybody, whoever it belongs to now; without a key if it is not, or no longer, the catalogue's."""

    id: int
    entry: CatalogueEntry
    source: PriceSource
    is_withdrawn: bool = False
    """Then it is here for its key alone: an admin wants no such entry."""


async def lock_catalogue(connection: Connection) -> None:
    """Wait for the other process that writes the catalogue; holds until the transaction ends."""
    await connection.execute(LOCK_CATALOGUE)


async def select_seeded(connection: Connection) -> bool:
    return bool(await connection.fetchval(SELECT_SEEDED))


async def defer_overlaps(connection: Connection) -> None:
    """Refuse prices in each other's way when the transaction ends, not before."""
    await connection.execute(DEFER_OVERLAPS)


async def select_known(connection: Connection) -> tuple[KnownEntry, ...]:
    """The rows that a sync has to look at."""
    return tuple(_known(row) for row in await connection.fetch(SELECT_KNOWN))


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


async def withdraw_entries(connection: Connection, numbers: Iterable[int], now: datetime) -> None:
    """Have the rows price nothing any more, and take their key."""
    await connection.executemany(WITHDRAW_ENTRY, [(number, now) for number in numbers])


def _known(row: asyncpg.Record) -> KnownEntry:
    values = dict(row)
    number, source, is_withdrawn = (values.pop(name) for name in ("id", "source", "is_withdrawn"))
    values["aliases"] = tuple(values["aliases"])
    return KnownEntry(number, CatalogueEntry(**values), PriceSource(source), is_withdrawn)


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


# The longest buckets are the fewest, and are kept for ever.
SELECT_USED_MODELS = f"""
  SELECT provider,
         model,
         sum(runs)::bigint AS runs,
         sum(unpriced)::bigint AS unpriced,
         sum(input_tokens)::bigint AS input_tokens,
         sum(output_tokens)::bigint AS output_tokens,
         max(bucket) AS last_used_at
    FROM rollups
   WHERE project_id = '{EVERYTHING}'
     AND grain = {GRAINS[-1].minutes}
     AND bucket >= $1
GROUP BY provider, model
  HAVING sum(runs) > 0
ORDER BY runs DESC, provider, model
"""  # noqa: S608  # Constants of the declaration.


@dataclass(frozen=True, slots=True)
class UsedModel:
    """What was sent to a provider's model; `last_used_at` is the start of the bucket."""

    provider: str
    model: str
    runs: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    last_used_at: datetime


async def select_used_models(connection: Connection, since: datetime) -> tuple[UsedModel, ...]:
    """The models used since then, in all projects, the most used first."""
    return tuple(UsedModel(*row) for row in await connection.fetch(SELECT_USED_MODELS, since))

"""SQL of the catalogue: read its entries in the registry, and write those of a sync, under the registry's lock."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from runtally.db.database import Connection
from runtally.models.price import RATE_COLUMNS, PriceSource
from runtally.pricing.draft import CatalogueEntry

# One transaction at a time writes the catalogue; another waits, and then finds nothing to do.
LOCK_CATALOGUE = """
SELECT pg_advisory_xact_lock(hashtext('runtally price catalogue'))
"""

SELECT_SEEDED = """
SELECT EXISTS (SELECT
                 FROM price_entries
                WHERE catalogue_key IS NOT NULL)
"""

SELECT_KNOWN = f"""
SELECT id,
       provider,
       model,
       aliases,
       match,
       pattern,
       above_input_tokens,
       {", ".join(RATE_COLUMNS)},
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

# In the order of the parameters.
_INSERTED = (
    "provider", "model", "aliases", "match", "pattern", "above_input_tokens", *RATE_COLUMNS,
    "effective_from", "effective_to", "estimated", "catalogue_key", "note",
)  # fmt: skip
_NOW = f"${len(_INSERTED) + 1}"
INSERT_ENTRY = f"""
INSERT INTO price_entries
            ({", ".join(_INSERTED)}, source, created_at, updated_at)
     VALUES ({", ".join(f"${place}" for place in range(1, len(_INSERTED) + 1))}, 'catalogue', {_NOW}, {_NOW})
"""

# An amount is never overwritten: runs that it priced point here. What is added to it is for other runs.
UPDATE_ENTRY = """
UPDATE price_entries
   SET model = $2,
       aliases = $3,
       match = $4,
       pattern = $5,
       effective_to = $6,
       estimated = $7,
       note = $8,
       unit_rates = $9,
       variants = $10,
       updated_at = $11
 WHERE id = $1
"""

# Without its key the entry is invisible to later syncs.
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

_inserted_of = attrgetter(*_INSERTED)
_UPDATED = attrgetter(
    "model", "aliases", "match", "pattern", "effective_to", "estimated", "note", "unit_rates", "variants"
)


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """A row that applies to all projects; its key is None if it is not from the catalogue."""

    id: int
    entry: CatalogueEntry
    source: PriceSource
    is_withdrawn: bool = False
    """Whether an admin withdrew it: it is listed for its key alone, so that a sync does not add it again."""


async def lock_catalogue(connection: Connection) -> None:
    """Lock out other processes that write the catalogue, until the transaction ends."""
    await connection.execute(LOCK_CATALOGUE)


async def select_seeded(connection: Connection) -> bool:
    return bool(await connection.fetchval(SELECT_SEEDED))


async def defer_overlaps(connection: Connection) -> None:
    """Check for overlapping prices at the end of the transaction, not before."""
    await connection.execute(DEFER_OVERLAPS)


async def select_known(connection: Connection) -> tuple[KnownEntry, ...]:
    """Read the rows that matter to a sync."""
    return tuple(_known(dict(row)) for row in await connection.fetch(SELECT_KNOWN))


async def insert_entries(connection: Connection, entries: Iterable[CatalogueEntry], now: datetime) -> None:
    rows = [(*_inserted_of(entry), now) for entry in entries]
    await connection.executemany(INSERT_ENTRY, rows)


async def update_entries(connection: Connection, entries: Iterable[tuple[int, CatalogueEntry]], now: datetime) -> None:
    """Update all fields but the amounts that it has and the start of the period."""
    rows = [(number, *_UPDATED(entry), now) for number, entry in entries]
    await connection.executemany(UPDATE_ENTRY, rows)


async def retire_entries(connection: Connection, ends: Iterable[tuple[int, datetime | None]], now: datetime) -> None:
    """End rows at the given times, and clear their catalogue key."""
    await connection.executemany(RETIRE_ENTRY, [(number, end, now) for number, end in ends])


async def withdraw_entries(connection: Connection, numbers: Iterable[int], now: datetime) -> None:
    """Withdraw the rows, so that they price nothing any more, and take their key."""
    await connection.executemany(WITHDRAW_ENTRY, [(number, now) for number in numbers])


def _known(values: dict[str, Any]) -> KnownEntry:
    number, source, is_withdrawn = (values.pop(name) for name in ("id", "source", "is_withdrawn"))
    values["aliases"] = tuple(values["aliases"])
    return KnownEntry(number, CatalogueEntry(**values), PriceSource(source), is_withdrawn)

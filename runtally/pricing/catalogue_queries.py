"""SQL of the catalogue: what the registry has of it, and what a sync writes. Whoever changes prices takes its lock."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from runtally.db.database import Connection
from runtally.models.price import AMOUNT_COLUMNS, PriceSource
from runtally.pricing.catalogue_entry import CatalogueEntry

# The transaction that writes the catalogue is the only one at a time; another waits, and then finds nothing to do.
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
       {", ".join(AMOUNT_COLUMNS)},
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
    "provider", "model", "aliases", "match", "pattern", "above_input_tokens", *AMOUNT_COLUMNS,
    "effective_from", "effective_to", "estimated", "catalogue_key", "note",
)  # fmt: skip
_NOW = f"${len(_INSERTED) + 1}"
INSERT_ENTRY = f"""
INSERT INTO price_entries
            ({", ".join(_INSERTED)}, source, created_at, updated_at)
     VALUES ({", ".join(f"${place}" for place in range(1, len(_INSERTED) + 1))}, 'catalogue', {_NOW}, {_NOW})
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

_inserted_of = attrgetter(*_INSERTED)
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
    return tuple(_known(dict(row)) for row in await connection.fetch(SELECT_KNOWN))


async def insert_entries(connection: Connection, entries: Iterable[CatalogueEntry], now: datetime) -> None:
    rows = [(*_inserted_of(entry), now) for entry in entries]
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


def _known(values: dict[str, Any]) -> KnownEntry:
    number, source, is_withdrawn = (values.pop(name) for name in ("id", "source", "is_withdrawn"))
    values["aliases"] = tuple(values["aliases"])
    return KnownEntry(number, CatalogueEntry(**values), PriceSource(source), is_withdrawn)

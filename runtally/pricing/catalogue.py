"""The price catalogue and the registry: seeding on first start, and bringing the registry up to date afterwards.

What an admin touched is left alone. A price that changed is closed, not overwritten, so that a run's price entry stays
the one that priced it. An entry that the catalogue dropped stays: its price was right.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import structlog

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import CatalogueUnreadable
from runtally.models.price import PriceSource
from runtally.pricing import queries
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.queries import KnownEntry

EXPORT = (sys.executable, "-m", "runtally.pricing.catalogue_export")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many entries of the catalogue a sync added, changed, found unchanged, found gone, and left to an admin."""

    added: int
    changed: int
    unchanged: int
    vanished: int
    kept: int


@dataclass(slots=True)
class Plan:
    """What a sync has to write."""

    insert: list[CatalogueEntry] = field(default_factory=list)
    update: list[tuple[int, CatalogueEntry]] = field(default_factory=list)
    retire: list[tuple[int, datetime | None]] = field(default_factory=list)
    unchanged: int = 0
    vanished: int = 0
    kept: int = 0

    @property
    def report(self) -> SyncReport:
        replaced = len(self.retire)
        return SyncReport(
            added=len(self.insert) - replaced,
            changed=len(self.update) + replaced,
            unchanged=self.unchanged,
            vanished=self.vanished,
            kept=self.kept,
        )


def seed_if_empty(database_url: str) -> int:
    """Fill a registry that never saw the catalogue, and say with how many entries.

    Blocking, with an event loop of its own. Raises `StoreUnavailable` and `CatalogueUnreadable`.
    """
    return asyncio.run(_seed_if_empty(database_url))


async def _seed_if_empty(database_url: str) -> int:
    async with Database(database_url) as database, database.connection() as connection:
        if await queries.select_seeded(connection):
            return 0
        return (await sync(connection, system_clock())).added


async def sync(connection: Connection, now: datetime) -> SyncReport:
    """Bring the registry up to date with the installed catalogue. Raises `CatalogueUnreadable`."""
    return await store(connection, await read_catalogue(), now)


async def store(connection: Connection, catalogue: Iterable[CatalogueEntry], now: datetime) -> SyncReport:
    """Bring the registry up to date with the entries, in one transaction."""
    async with connection.transaction():
        await queries.lock_catalogue(connection)
        plan = plan_of(catalogue, await queries.select_known(connection), now)
        # A retired entry gives its key to the one that replaces it.
        await queries.retire_entries(connection, plan.retire, now)
        await queries.update_entries(connection, plan.update, now)
        await queries.insert_entries(connection, plan.insert, now)
    return plan.report


async def read_catalogue() -> list[CatalogueEntry]:
    """The installed catalogue, read in a process of its own. Raises `CatalogueUnreadable`."""
    process = await asyncio.create_subprocess_exec(
        *EXPORT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    lines, errors = await process.communicate()
    if process.returncode:
        log.error("price_catalogue_unreadable", output=errors.decode(errors="replace"))
        raise CatalogueUnreadable
    decoder = msgspec.json.Decoder(CatalogueEntry)
    return [decoder.decode(line) for line in lines.splitlines()]


def plan_of(catalogue: Iterable[CatalogueEntry], known: Mapping[str, KnownEntry], now: datetime) -> Plan:
    plan = Plan()
    gone = {key for key, row in known.items() if row.source is PriceSource.CATALOGUE}
    for entry in catalogue:
        gone.discard(entry.catalogue_key)
        row = known.get(entry.catalogue_key)
        if row is None:
            plan.insert.append(entry)
        elif row.source is PriceSource.ADMIN:
            plan.kept += 1
        else:
            _plan_change(plan, row, entry, now)
    plan.vanished = len(gone)
    return plan


def _plan_change(plan: Plan, row: KnownEntry, entry: CatalogueEntry, now: datetime) -> None:
    start, end = row.entry.effective_from, row.entry.effective_to
    # An entry that replaced another one starts later than the catalogue says, and that is no difference.
    entry_from_start = msgspec.structs.replace(entry, effective_from=start)
    if row.entry == entry_from_start:
        plan.unchanged += 1
    elif row.entry.amounts == entry.amounts and (
        start is None or entry.effective_to is None or start < entry.effective_to
    ):
        plan.update.append((row.id, entry_from_start))
    else:
        began, ended = start is None or start < now, end is not None and end <= now
        plan.retire.append((row.id, now if began and not ended else end))
        # A price that is in force changes from now on. Of a period that is over or still to come all is replaced; of two
        # entries for one time the newer is preferred.
        over = entry.effective_to is not None and entry.effective_to <= now
        plan.insert.append(msgspec.structs.replace(entry, effective_from=now) if began and not over else entry)

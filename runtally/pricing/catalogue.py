"""The price catalogue and the registry: seed the registry on first start, compare them, and sync it afterwards.

Entries that an admin changed are left alone. A changed price is ended, not overwritten, so that a run's price entry
remains the one that priced it. An entry that the catalogue dropped stays: its price was right. Where the catalogue
corrects a time that is over, its old entry is withdrawn.
"""

import asyncio
import sys
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from importlib.metadata import version

import msgspec
import structlog

from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.errors import CatalogueUnreadable
from runtally.models.price import PriceSource
from runtally.pricing import catalogue_queries as queries
from runtally.pricing.catalogue_queries import KnownEntry
from runtally.pricing.draft import CatalogueEntry, CheckedDay
from runtally.pricing.entries import SlotIndex
from runtally.pricing.queries import select_version

PACKAGE = "genai-prices"
# -P: not with modules of the working folder, whose names may be those of libraries.
EXPORT = (sys.executable, "-P", "-m", "runtally.pricing.catalogue_export")

# One export for each version that was installed while this process ran: 70 KB instead of 1.5 MB.
_exported: dict[tuple[tuple[str, ...], str], bytes] = {}

log = structlog.get_logger()


COMPARED = tuple(name for name in CatalogueEntry.__dataclass_fields__ if name not in {"catalogue_key", "provider"})


class Kind(StrEnum):
    """The change of a catalogue entry."""

    NEW = "new"
    CHANGED = "changed"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that differs between registry and catalogue; it may be missing in one of them."""

    kind: Kind
    before: CatalogueEntry | None
    after: CatalogueEntry | None
    kept_for: int | None = None
    """The admin's entry that it conflicts with; then it is not taken."""
    checked_on: date | None = None
    """The day on which the catalogue's maintainers last checked the price, if known."""

    @property
    def entry(self) -> CatalogueEntry:
        found = self.after or self.before
        if found is None:
            raise ValueError("a difference has an entry on one side")
        return found

    @property
    def fields(self) -> tuple[tuple[str, object, object], ...]:
        """The name, old and new value of each field that differs."""
        sides = [{name: getattr(side, name, None) for name in COMPARED} for side in (self.before, self.after)]
        return tuple((name, sides[0][name], sides[1][name]) for name in COMPARED if sides[0][name] != sides[1][name])


def differences_of(catalogue: Iterable[CatalogueEntry], known: Sequence[KnownEntry]) -> tuple[Difference, ...]:
    """List the differences in the order of the catalogue, dropped entries last.

    Entries that an admin took over are left out.
    """
    by_key = {row.entry.catalogue_key: row for row in known if row.entry.catalogue_key}
    admins = SlotIndex((row.entry, row.id) for row in known if row.source is PriceSource.ADMIN and not row.is_withdrawn)
    vanished = {key: row for key, row in by_key.items() if row.source is PriceSource.CATALOGUE}
    found = []
    for entry in catalogue:
        vanished.pop(entry.catalogue_key, None)
        row = by_key.get(entry.catalogue_key)
        if row is None:
            found.append(Difference(Kind.NEW, None, entry, next(admins.conflicts_of(entry), None)))
        elif row.source is PriceSource.CATALOGUE:
            # An entry that replaced another one starts later than the catalogue says, which is no difference.
            after = replace(entry, effective_from=row.entry.effective_from)
            if after != row.entry:
                kept_for = next(admins.conflicts_of(entry), None)
                found.append(Difference(Kind.CHANGED, row.entry, after, kept_for))
    return (*found, *(Difference(Kind.VANISHED, row.entry, None) for row in vanished.values()))


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The numbers of entries that a sync added, changed, found unchanged, found dropped, and left to an admin."""

    added: int
    changed: int
    unchanged: int
    vanished: int
    kept: int


@dataclass(slots=True)
class Plan:
    """The writes of a sync."""

    insert: list[CatalogueEntry] = field(default_factory=list)
    update: list[tuple[int, CatalogueEntry]] = field(default_factory=list)
    retire: list[tuple[int, datetime | None]] = field(default_factory=list)
    withdraw: list[int] = field(default_factory=list)
    corrected: int = 0
    unchanged: int = 0
    vanished: int = 0
    kept: int = 0

    @property
    def report(self) -> SyncReport:
        replaced = len(self.retire) + self.corrected
        return SyncReport(
            added=len(self.insert) - replaced,
            changed=len(self.update) + replaced,
            unchanged=self.unchanged,
            vanished=self.vanished,
            kept=self.kept,
        )


def seed_if_empty(database_url: str) -> int:
    """Fill a registry that was never seeded, and return the number of entries.

    Blocking, with an event loop of its own. Raises `StoreUnavailable` and `CatalogueUnreadable`.
    """
    return asyncio.run(_seed_if_empty(database_url))


async def _seed_if_empty(database_url: str) -> int:
    async with Database(database_url) as database, database.connection() as connection:
        if await queries.select_seeded(connection):
            return 0
        return (await sync(connection, system_clock())).added


async def sync(connection: Connection, now: datetime) -> SyncReport:
    """Update the registry to the installed catalogue. Raises `CatalogueUnreadable`."""
    return await store(connection, await read_catalogue(), now)


async def store(connection: Connection, catalogue: Iterable[CatalogueEntry], now: datetime) -> SyncReport:
    """Update the registry to the given entries in one transaction."""
    async with connection.transaction():
        await queries.lock_catalogue(connection)
        # Overlaps are checked at the end, not at each step.
        await queries.defer_overlaps(connection)
        plan = plan_of(catalogue, await queries.select_known(connection), now)
        # A retired or withdrawn entry gives up its key and its time to the entry that replaces it.
        await queries.withdraw_entries(connection, plan.withdraw, now)
        await queries.retire_entries(connection, plan.retire, now)
        await queries.update_entries(connection, plan.update, now)
        await queries.insert_entries(connection, plan.insert, now)
    return plan.report


async def compare(connection: Connection) -> tuple[Difference, ...]:
    """Compare the registry with the installed catalogue. Raises `CatalogueUnreadable`."""
    lines = await exported_lines()
    day, entry = msgspec.json.Decoder(CheckedDay), msgspec.json.Decoder(CatalogueEntry)
    days = {one.catalogue_key: one.checked_on for one in map(day.decode, lines)}
    found = differences_of([entry.decode(line) for line in lines], await queries.select_known(connection))
    return tuple(replace(one, checked_on=days.get(one.entry.catalogue_key)) for one in found)


async def take(connection: Connection, keys: Collection[str], now: datetime) -> SyncReport:
    """Take over the entries with these keys, and end those of them that the catalogue dropped.

    Raises `CatalogueUnreadable`.
    """
    catalogue = await read_catalogue()
    dropped = set(keys) - {entry.catalogue_key for entry in catalogue}
    async with connection.transaction():
        report = await store(connection, [entry for entry in catalogue if entry.catalogue_key in keys], now)
        known = await queries.select_known(connection)
        gone = [row for row in known if row.entry.catalogue_key in dropped and row.source is PriceSource.CATALOGUE]
        to_come = [row.id for row in gone if row.entry.effective_from and row.entry.effective_from >= now]
        await queries.withdraw_entries(connection, to_come, now)
        await queries.retire_entries(connection, [(row.id, now) for row in gone if row.id not in to_come], now)
    return replace(report, unchanged=0, vanished=len(gone))


async def read_catalogue() -> list[CatalogueEntry]:
    """Read the installed catalogue in a process of its own. Raises `CatalogueUnreadable`."""
    decoder = msgspec.json.Decoder(CatalogueEntry)
    return [decoder.decode(line) for line in await exported_lines()]


async def exported_lines() -> list[bytes]:
    """Return the catalogue as JSON, one `ExportedEntry` a line. Raises `CatalogueUnreadable`.

    It is read once per version, because that takes seconds.
    """
    of = EXPORT, version(PACKAGE)
    if of not in _exported:
        _exported[of] = zlib.compress(await _export())
    return zlib.decompress(_exported[of]).splitlines()


async def _export() -> bytes:
    process = await asyncio.create_subprocess_exec(
        *EXPORT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    lines, errors = await process.communicate()
    if process.returncode:
        log.error("price_catalogue_unreadable", output=errors.decode(errors="replace"))
        raise CatalogueUnreadable
    return lines


def plan_of(catalogue: Iterable[CatalogueEntry], known: Iterable[KnownEntry], now: datetime) -> Plan:
    """Plan the writes for these entries. `known` are all rows that are in force or came from the catalogue."""
    rows = tuple(known)
    by_key = {row.entry.catalogue_key: row for row in rows if row.entry.catalogue_key}
    admins = SlotIndex((row.entry, row.id) for row in rows if row.source is PriceSource.ADMIN and not row.is_withdrawn)
    plan = Plan()
    gone = {key for key, row in by_key.items() if row.source is PriceSource.CATALOGUE}
    for entry in catalogue:
        gone.discard(entry.catalogue_key)
        row = by_key.get(entry.catalogue_key)
        if (row is not None and row.source is PriceSource.ADMIN) or any(admins.conflicts_of(entry)):
            plan.kept += 1
        elif row is None:
            plan.insert.append(entry)
        else:
            _plan_change(plan, row, entry, now)
    plan.vanished = len(gone)
    _make_room(plan, rows)
    return plan


def _make_room(plan: Plan, rows: Iterable[KnownEntry]) -> None:
    """Withdraw the catalogue's earlier entries for times that its new entries cover."""
    changed = {number for number, _ in plan.update}
    ends = dict(plan.retire)
    taken = SlotIndex(
        (replace(row.entry, effective_to=ends.get(row.id, row.entry.effective_to)), row.id)
        for row in rows
        if row.source is PriceSource.CATALOGUE and row.id not in changed and row.id not in plan.withdraw
    )
    written = (*plan.insert, *(entry for _, entry in plan.update))
    in_the_way = {number for entry in written for number in taken.conflicts_of(entry)}
    plan.corrected += len(in_the_way & set(ends))
    plan.retire = [(number, end) for number, end in plan.retire if number not in in_the_way]
    plan.withdraw += sorted(in_the_way)


def _plan_change(plan: Plan, row: KnownEntry, entry: CatalogueEntry, now: datetime) -> None:
    start, end = row.entry.effective_from, row.entry.effective_to
    # An entry that replaced another one starts later than the catalogue says, which is no difference.
    entry_from_start = replace(entry, effective_from=start)
    began, ended = start is None or start < now, end is not None and end <= now
    if row.entry == entry_from_start:
        plan.unchanged += 1
    elif (row.entry.amounts == entry.amounts or entry.only_adds_to(row.entry)) and (
        start is None or entry.effective_to is None or start < entry.effective_to
    ):
        plan.update.append((row.id, entry_from_start))
    elif began and not ended:
        # A price that is in force changes from now on.
        over = entry.effective_to is not None and entry.effective_to <= now
        plan.retire.append((row.id, now))
        plan.insert.append(entry if over else replace(entry, effective_from=now))
    else:
        # A period that is over or still to come is replaced as a whole.
        plan.withdraw.append(row.id)
        plan.corrected += 1
        plan.insert.append(entry)


class Comparison:
    """The last comparison, valid until the registry or the installed catalogue changes; one per process."""

    def __init__(self) -> None:
        self._of: tuple[str, str] | None = None
        self._found: tuple[Difference, ...] = ()

    async def known(self, connection: Connection) -> tuple[Difference, ...] | None:
        """Return the comparison if it is current; None if it would have to be computed."""
        return self._found if await _version(connection) == self._of else None

    async def read(self, connection: Connection) -> tuple[Difference, ...]:
        """Return the comparison, computed if necessary. Raises `CatalogueUnreadable`."""
        # Read the version first: a change in between then makes the next comparison compute anew.
        of = await _version(connection)
        if of != self._of:
            self._found, self._of = await compare(connection), of
        return self._found


async def _version(connection: Connection) -> tuple[str, str]:
    return await select_version(connection), version(PACKAGE)

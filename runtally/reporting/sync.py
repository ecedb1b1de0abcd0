"""Takes live run documents into the reporting table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.db.grouped import Grouped
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.reporting import queries
from runtally.reporting.document import decode
from runtally.settings import Settings

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of a document: `applied` unless a version as new was there already."""

    id: str
    applied: bool


class ReportingSync:
    """Writes the reporting table, wherever that is; one per process."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self.database = database
        self._clock = clock
        self._rule = ContentRule.of(settings.privacy_mode, settings.content_keys)
        self._grouped = Grouped(self._upsert, at_most=_AT_ONCE)

    async def accept(self, body: bytes) -> Synced:
        """Keep the run of a document if it is newer than what is there; committed when this returns.

        Raises `InvalidJson`, `InvalidPayload`, `StoreUnavailable` and `StoreBusy`; nothing is changed then.
        """
        run = decode(body, self._clock(), self._rule)
        return Synced(run.id, await self._grouped.do(run))

    async def _upsert(self, runs: Sequence[StoredRun]) -> list[bool]:
        async with self.database.durable() as connection:
            return await queries.upsert_reported(connection, runs, self._clock())

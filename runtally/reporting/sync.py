"""Takes live run documents into the reporting table."""

from dataclasses import dataclass

from runtally.clock import Clock
from runtally.db.database import Database
from runtally.privacy import ContentRule
from runtally.reporting import queries
from runtally.reporting.document import decode
from runtally.settings import Settings


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

    async def accept(self, body: bytes) -> Synced:
        """Keep the run of a document if it is newer than what is there; committed when this returns.

        Raises `InvalidJson`, `InvalidPayload` and `StoreUnavailable`; nothing is changed then.
        """
        now = self._clock()
        run = decode(body, now, self._rule)
        async with self.database.connection() as connection:
            return Synced(run.id, await queries.upsert_reported(connection, run, now))

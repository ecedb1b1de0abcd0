"""How the relay is doing: for the command line, pages and monitoring."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.reporting.outbox_queries import COUNTED, count_parked, select_waiting


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """Runs that are not in the reporting table yet."""

    waiting: int
    """One more than `COUNTED` stands for all that are more."""
    parked: int
    oldest_at: datetime | None
    """Since when the longest of the waiting ones waits; where these are more than `COUNTED`, one may have waited longer."""
    failing: int = 0
    """Of the waiting ones, those that failed before; counted as these are."""
    last_error: str | None = None

    @property
    def is_more(self) -> bool:
        """Whether more wait than are counted."""
        return self.waiting > COUNTED

    @property
    def waiting_words(self) -> str:
        return f"more than {COUNTED:,}" if self.is_more else f"{self.waiting:,}"


async def relay_status(connection: Connection) -> RelayStatus:
    waiting, oldest_at, failing, last_error = await select_waiting(connection)
    return RelayStatus(waiting, await count_parked(connection), oldest_at, failing, last_error)

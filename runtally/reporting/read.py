"""Read the relay's status, for the command line, pages and monitoring."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.reporting.outbox_queries import COUNTED, count_parked, select_waiting


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """Runs that are not in the reporting table yet."""

    waiting: int
    """A number above `COUNTED` stands for any larger one."""
    parked: int
    oldest_at: datetime | None
    """The start of the longest wait. With more than `COUNTED` waiting runs, one may have waited longer."""
    failing: int = 0
    """The waiting runs that failed before, counted up to the same limit."""
    last_error: str | None = None

    @property
    def is_more(self) -> bool:
        """Whether more runs are waiting than were counted."""
        return self.waiting > COUNTED

    @property
    def waiting_words(self) -> str:
        return f"more than {COUNTED:,}" if self.is_more else f"{self.waiting:,}"

    def __add__(self, other: "RelayStatus") -> "RelayStatus":
        """Return the status of both cells together."""
        return RelayStatus(
            self.waiting + other.waiting,
            self.parked + other.parked,
            min((one for one in (self.oldest_at, other.oldest_at) if one), default=None),
            self.failing + other.failing,
            self.last_error or other.last_error,
        )


async def get_relay_status(connection: Connection) -> RelayStatus:
    waiting, oldest_at, failing, last_error = await select_waiting(connection)
    return RelayStatus(waiting, await count_parked(connection), oldest_at, failing, last_error)

"""How the relay is doing: for the command line, pages and monitoring."""

from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.reporting import queries


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """Runs that are not in the reporting table yet. `oldest_at` is since when the longest of the waiting ones waits."""

    waiting: int
    parked: int
    oldest_at: datetime | None


async def relay_status(connection: Connection) -> RelayStatus:
    return RelayStatus(*await queries.select_status(connection))

"""How much memory and how many connections the processes of a service hold, and whether that grows."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from runtally.cells.cell import CONNECTIONS
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from tests.faults.service import WORKERS, Service

MEBIBYTE = 1024 * 1024
# The documentation's numbers: what a worker opens, and what a relay or a command does, of which this program is one.
MOST_CONNECTIONS = WORKERS * CONNECTIONS + 2 * 12
OPEN = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND pid <> pg_backend_pid()
   AND backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True)
class Slack:
    """By how much a level may be higher later on: a tenth, and what caches fill up to."""

    more: float
    share: float = 0.1

    def allows(self, before: float, after: float) -> bool:
        return after <= before * (1 + self.share) + self.more


MEMORY, COUNT = Slack(24 * MEBIBYTE), Slack(4)


class Levels:
    """What was measured while the same processes were under load."""

    def __init__(self, service: Service, database: Database) -> None:
        self._service = service
        self._database = database
        self._processes = self._pids()
        self._measured: dict[str, list[float]] = defaultdict(list)

    def _pids(self) -> dict[str, list[int]]:
        return {
            "the main process": self._service.main_process(),
            "the workers": sorted(self._service.workers()),
            "the relay": self._service.relay(),
        }

    async def measure(self) -> None:
        for name, pids in self._processes.items():
            # Where one has ended, that is found in the end.
            with suppress(FileNotFoundError, ProcessLookupError):
                self._measured[f"memory of {name}"].append(sum(map(private_bytes, pids)))
        # On a machine with little left for this program, opening a connection may take too long; another level follows.
        with suppress(StoreUnavailable):
            async with self._database.connection() as connection:
                self._measured["connections"].append(await connection.fetchval(OPEN))

    def findings(self) -> list[str]:
        """What has grown, or ended, in words."""
        found = [] if self._pids() == self._processes else ["a process ended without being killed"]
        for name, levels in self._measured.items():
            before, after = settled(levels)
            slack, unit = (COUNT, 1) if name == "connections" else (MEMORY, MEBIBYTE)
            print(f"{name}: {before / unit:.0f}, then {after / unit:.0f}, at most {max(levels) / unit:.0f}", flush=True)
            if not slack.allows(before, after):
                found.append(f"{name} grew from {before / unit:.0f} to {after / unit:.0f}")
        if max(self._measured["connections"]) > MOST_CONNECTIONS:
            found.append(f"{max(self._measured['connections'])} connections were open, more than {MOST_CONNECTIONS}")
        return found


def settled(levels: Sequence[float]) -> tuple[float, float]:
    """The medians of the second fifth, when caches are warm, and of the last. Raises `ValueError` for too few."""
    fifth = len(levels) // 5
    if not fifth:
        raise ValueError("Five levels at least tell whether they grow.")
    return median(levels[fifth : 2 * fifth]), median(levels[-fifth:])


def private_bytes(pid: int) -> int:
    """The memory that a process shares with no file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0

"""One look at all projects: what everything on a page is read with.

Which of the days that are over changed is asked once, for all that is remembered of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from runtally.clock import start_of_day
from runtally.db.database import Connection
from runtally.metrics import project_sum_queries
from runtally.metrics.moment_queries import MetRun
from runtally.metrics.past import Past
from runtally.metrics.window import Range, Window
from runtally.rollups.remembered import Version

DAY = timedelta(days=1)
WEEK = timedelta(days=7)


class Looking:
    """A window, over a connection whose statements all see the same moment; and what is remembered of the past."""

    def __init__(self, connection: Connection, window: Window, past: Past) -> None:
        self.connection = connection
        self.window = window
        self.past = past
        self.now = window.now
        self.midnight = start_of_day(self.now)
        self.before = window.previous(self.now)
        self.month = Window.of(Range.MONTH, self.now, Range.MONTH.chart_interval)
        self._since = min(self.month.start, self.before.start) - WEEK - DAY
        self._days: Mapping[datetime, str] | None = None
        self._last_bucket: datetime | None = None
        self._met: dict[tuple[datetime, datetime], Sequence[MetRun] | None] = {}

    async def version(self, since: datetime, until: datetime) -> Version:
        """Of days that are over: another one whenever a run of all projects came, changed or went in this time.

        None of what is further back than a page looks.
        """
        if since < self._since:
            return None
        days = await self._read_days()
        begins = since - DAY
        return tuple((day, text) for day, text in days.items() if begins < day < until)

    async def last_bucket(self) -> datetime | None:
        """The last of the shortest buckets that has runs."""
        await self._read_days()
        return self._last_bucket

    async def met(self, window: Window, since: datetime) -> Sequence[MetRun] | None:
        """The runs of the window from then on; None where it is not worth it to remember them."""
        key = since, window.until
        if key not in self._met:
            self._met[key] = await self.past.runs.read(self.connection, window, since)
        return self._met[key]

    async def _read_days(self) -> Mapping[datetime, str]:
        if self._days is None:
            self._days, self._last_bucket = await project_sum_queries.select_days(
                self.connection, self._since, self.midnight
            )
        return self._days

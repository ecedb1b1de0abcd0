"""The days of a scope with their versions and run counts, read once for a page. A version differs once a run of its day changes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from runtally.clock import DAY
from runtally.db.database import Connection
from runtally.models.rollup import RollupScope
from runtally.usage.days.version_queries import select_days
from runtally.usage.memo import Version
from runtally.usage.window import TimeSpan


@dataclass(frozen=True, slots=True)
class Days:
    """The versions and run counts of days, of one project or of all together, from some day on."""

    since: datetime
    versions: Mapping[datetime, str]
    """The version of each day with runs, including today and later days."""
    runs: Mapping[datetime, int]
    sketches: Mapping[datetime, str]
    """Versions of the stored latencies."""
    last_bucket: datetime | None
    """The last of the shortest buckets that has runs of any project."""
    dropped_before: datetime | None
    """Older runs are known by their sums alone; of several projects the latest."""
    is_dropping: bool = field(default=False)
    """Whether runs are being dropped: what is read of them now is soon different."""

    @classmethod
    async def read(cls, connection: Connection, project_id: str | None, since: datetime) -> "Days":
        """Read the days in one statement."""
        scope = RollupScope(project_id).key
        rows = await select_days(connection, scope, since)
        by_kind: dict[str, list[tuple[str, datetime, str, int]]] = {}
        for kind, *row in rows:
            by_kind.setdefault(kind, []).append((row[0], row[1], row[2], row[3]))
        days, sketches = (sorted(by_kind.get(kind, ()), key=lambda row: row[1]) for kind in ("day", "sketches"))
        versions, runs = dict[datetime, str](), Counter[datetime]()
        for _, day, version, of_day in days:
            versions[day] = f"{versions.get(day, '')} {version}"
            runs[day] += of_day
        dropped = [at for kind in ("dropped", "dropping") for _, at, *_ in by_kind.get(kind, ())]
        return cls(
            since=since,
            versions=versions,
            runs=runs,
            sketches={day: version for _, day, version, _ in sketches},
            last_bucket=by_kind["last bucket"][0][1],
            dropped_before=max(dropped, default=None),
            is_dropping="dropping" in by_kind,
        )

    def version(self, span: TimeSpan, *, has_runs: bool = True, has_sketches: bool = True) -> Version:
        """Return a value that changes whenever a run in the span changes; None if nothing of the span may be remembered.

        Sums alone are not changed by dropping runs, and sums and runs not by adding latencies up.
        """
        if span.since < self.since or (has_runs and self.is_dropping):
            return None
        sketches = _within(self.sketches, span) if has_sketches else ()
        return _within(self.versions, span), sketches, self.dropped_before if has_runs else None

    def tag(self, since: datetime) -> Version:
        """Return a value that changes whenever a run since that time is added, changed or deleted, including today and later."""
        return tuple(version for day, version in self.versions.items() if day > since - DAY)

    def runs_in(self, span: TimeSpan) -> int:
        """Return how many runs there are on the days of a span."""
        return sum(runs for day, runs in self.runs.items() if span.since - DAY < day < span.until)


def _within(versions: Mapping[datetime, str], span: TimeSpan) -> tuple[tuple[datetime, str], ...]:
    return tuple((day, version) for day, version in versions.items() if span.since - DAY < day < span.until)

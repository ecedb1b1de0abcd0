"""What the runs of a list add up to: exact, or not said at all."""

from datetime import datetime
from decimal import Decimal

from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import DAY
from runtally.db.combined import CombinedReads
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.runs import archived, queries
from runtally.runs.archived import RunSources, of_each
from runtally.runs.scan import conditions_of, find_bound
from runtally.runs.values import Totals
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.overview.project_queries import select_dropped_before
from runtally.usage.plan import Question
from runtally.usage.timeline import EPOCH, Timeline, TimeSpan, ceil, floor
from runtally.usage.window import LAST

# Read and added up in some 200 ms.
COUNTED_RUNS = 100_000
# What rollups tell apart.
_ROLLED_UP = {"provider", "model", "status"}
_MEASURES = ("runs", "cost_usd", "unpriced")
_OF_STATUSES = ("errors", "timeouts", "error_cost_usd", "timeout_cost_usd")
NOTHING = Totals(0, Decimal(0), 0)


async def read_totals(sources: RunSources, run_filter: RunFilter, now: datetime) -> Totals | None:
    """Add up the runs that match; None where these are too many to be read and no sum is kept of them.

    Raises `ArchiveError` and `MissingExtra` where archived runs are among them.
    """
    found = await of_each(sources, lambda source: _totals(source.connection, run_filter, now, source.archive))
    known = [totals for totals in found if totals is not None]
    return sum(known[1:], known[0]) if len(known) == len(found) else None


async def _totals(
    connection: Connection, run_filter: RunFilter, now: datetime, archive: ArchivedRuns | None
) -> Totals | None:
    since, dropped_before = run_filter.starts_at(now), None
    run_filter = run_filter.replace(until=run_filter.ends_at(now))
    if run_filter.project_id is not None:
        # Sums have runs that the list cannot show; those of all projects have also what was dropped or archived.
        dropped_before = await read_dropped_before(connection, run_filter, now)
        since = dropped_before or since
    if dropped_before and run_filter.until and run_filter.until <= dropped_before:
        found: Totals | None = NOTHING
    elif set(run_filter.narrowed) <= _ROLLED_UP:
        found = await _from_sums(connection, run_filter, now, since, archive if run_filter.project_id is None else None)
    elif run_filter.is_of_dimensions and any(dimension.tracked_as for dimension in run_filter.dimensions):
        found = await _from_sums(connection, run_filter, now, since, None)
    else:
        return await _from_runs(connection, run_filter, now, archive)
    if found is None or archive is None or dropped_before is None:
        return found
    # Runs that wait for the relay stay longer than others.
    until = min(dropped_before, run_filter.until or dropped_before)
    found += await queries.select_totals(connection, conditions_of(run_filter.replace(until=until), now))
    return found + await archived.read_totals(archive, connection, run_filter, now)


async def read_missing_before(sources: RunSources, run_filter: RunFilter, now: datetime) -> datetime | None:
    """Return the time before which runs were dropped and not archived, where they are looked for; None if none were.

    Raises `ArchiveError` and `MissingExtra`.
    """
    found = await of_each(sources, lambda source: _missing_before(source.connection, run_filter, now, source.archive))
    return max(filter(None, found), default=None)


async def _missing_before(
    connection: Connection, run_filter: RunFilter, now: datetime, archive: ArchivedRuns | None
) -> datetime | None:
    dropped_before = await read_dropped_before(connection, run_filter, now)
    if dropped_before is None or archive is None:
        return dropped_before
    since = floor(run_filter.starts_at(now) or EPOCH, DAY)
    until = min(ceil(run_filter.ends_at(now) or LAST, DAY), dropped_before)
    return dropped_before if await archive.missing(connection, run_filter.project_id, since, until) else None


async def read_dropped_before(connection: Connection, run_filter: RunFilter, now: datetime) -> datetime | None:
    """Since when runs are kept, where they are looked for further back."""
    since = run_filter.starts_at(now)
    dropped_before = await select_dropped_before(connection, run_filter.project_id)
    return dropped_before if dropped_before and (since is None or since < dropped_before) else None


async def _from_runs(
    connection: Connection, run_filter: RunFilter, now: datetime, archive: ArchivedRuns | None
) -> Totals | None:
    if await find_bound(connection, run_filter, now, COUNTED_RUNS) is not None:
        return None
    totals = await queries.select_totals(connection, conditions_of(run_filter, now))
    return totals if archive is None else totals + await archived.read_totals(archive, connection, run_filter, now)


async def _from_sums(
    connection: Connection,
    run_filter: RunFilter,
    now: datetime,
    since: datetime | None,
    archive: ArchivedRuns | None,
) -> Totals | None:
    """Add up stored sums, and the runs of what these do not cover, as `GET /api/usage` does."""
    timeline = Timeline.whole(TimeSpan(since or EPOCH, run_filter.until or LAST), now)
    status = run_filter.status if set(run_filter.narrowed) <= _ROLLED_UP else None
    question = Question(
        timeline,
        run_filter if status is None else run_filter.replace(status=None),
        measures=_MEASURES if status is None else (*_MEASURES, *_OF_STATUSES),
    )
    reader = GroupRowReader(CombinedReads.over(connection), ArchivedGroupReader(archive) if archive else None)
    try:
        found = (await read_groups([reader], question)).total
    except DimensionNotTracked:
        return None
    if status is None:
        return Totals(found.runs, found.cost_usd, found.unpriced)
    # What runs of a status cost is kept; how many of them have no price is not, so with any there is no cost to tell.
    runs = {Outcome.ERROR: found.errors, Outcome.TIMEOUT: found.timeouts, Outcome.FAILED: found.failed}
    costs = {Outcome.ERROR: found.error_cost_usd, Outcome.TIMEOUT: found.timeout_cost_usd}
    costs[Outcome.FAILED] = found.error_cost_usd + found.timeout_cost_usd
    of_status = runs.get(status, found.runs - found.failed), costs.get(status, found.cost_usd - costs[Outcome.FAILED])
    return Totals(of_status[0], None if found.unpriced else of_status[1], 0)

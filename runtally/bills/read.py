"""Read what was computed here for the days of a bill, and compare it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

from runtally.bills.compare import Comparison, compare, compare_amount
from runtally.bills.rows import DAY, BillRow
from runtally.bills.store import rows_of
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.models.budget import Bill
from runtally.pricing.book import PriceBook
from runtally.pricing.match import Discount
from runtally.pricing.queries import select_discounts
from runtally.runs.cost_line_queries import PricedAlike
from runtally.runs.cost_lines import read_priced_alike
from runtally.units import COUNT_COLUMNS, Usage
from runtally.usage.deleted_queries import read_deleted
from runtally.usage.dimensions import MODEL, PROVIDER
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.groups.groups import read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.overview.project_queries import select_dropped_before
from runtally.usage.plan import Question
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan

Days = dict[date, list[PricedAlike]]
_MOST_MODELS = 10_000
_NOON = timedelta(hours=12)


async def read_comparison(  # noqa: PLR0913, PLR0917  # Both sides, and what they are priced by.
    snapshots: Snapshots, control: Connection, bill: Bill, rows: Sequence[BillRow], book: PriceBook, now: datetime
) -> Comparison:
    """Compare a bill with the runs of its provider over all projects. Raises `DimensionNotTracked` for too many runs on a day."""
    discounts = await select_discounts(control, None)
    since, until = (datetime.combine(day, time(), UTC) for day in (bill.since, bill.until))
    dropped = [
        one
        for one in await snapshots.of_each(lambda connection: select_dropped_before(connection, None))
        if one is not None
    ]
    # Days whose runs are gone, or some of them, have sums by model.
    first = min(until, max([since, *(one.replace(hour=0, minute=0, second=0, microsecond=0) + DAY for one in dropped)]))
    days: Days = defaultdict(list)
    if since < first:
        for day, row in await _read_sums(snapshots, _question(bill.provider, since, first, now)):
            days[day].append(row)
    if first <= since and any(row.begins for row in rows):
        # The vendor's days are in another zone: each is compared with the runs of its own hours.
        for day, span in _spans(bill, rows).items():
            one: Days = defaultdict(list)
            timeline = Timeline.whole(span, now)
            await _read_runs(
                snapshots,
                control,
                replace(_question(bill.provider, since, until, now), timeline=timeline),
                discounts,
                one,
            )
            days[day] = [row for found in one.values() for row in found]
    elif first < until:
        await _read_runs(snapshots, control, _question(bill.provider, first, until, now), discounts, days)
    deleted = await read_deleted(snapshots, since, until)
    if not rows:
        runs = (row for found in days.values() for row in found)
        return replace(compare_amount(bill.amount_usd or Decimal(0), runs), deleted=deleted)
    return replace(compare(rows, days, bill.provider, book), deleted=deleted)


async def read_costs(snapshots: Snapshots, bills: Sequence[Bill], now: datetime) -> dict[UUID, Decimal]:
    """Read what the runs of each bill's vendor and days cost, from stored sums; of bills with days in another zone, nothing."""
    costs, readers = dict[UUID, Decimal](), [GroupRowReader.of(snapshot) for snapshot in snapshots.every]
    in_utc = [bill for bill in bills if not any(row.begins for row in rows_of(bill))]
    for days in {(bill.since, bill.until) for bill in in_utc}:
        since, until = (datetime.combine(day, time(), UTC) for day in days)
        timeline = Timeline.whole(TimeSpan(since, until), now)
        measures = ("cost_usd", "runs")
        question = Question(timeline, ALL_RUNS, (PROVIDER,), measures, limit=_MOST_MODELS)
        answer = await read_groups(readers, question)
        found = {group[0]: sums.totals.cost_usd for (_, group), sums in answer.slices.items()}
        costs |= {bill.id: found.get(bill.provider, Decimal(0)) for bill in in_utc if (bill.since, bill.until) == days}
    return costs


def _spans(bill: Bill, rows: Sequence[BillRow]) -> dict[date, TimeSpan]:
    """Return when each day of a bill begins and ends, by the rows of that day, and of others by those before."""
    begins = {row.day: timedelta(minutes=row.begins) for row in rows}
    starts, at = dict[date, datetime](), begins[min(begins)]
    for number in range((bill.until - bill.since).days + 1):
        day = bill.since + number * DAY
        at = begins.get(day, at)
        starts[day] = datetime.combine(day, time(), UTC) + at
    return {day: TimeSpan(start, starts[day + DAY]) for day, start in starts.items() if day < bill.until}


def _question(provider: str, since: datetime, until: datetime, now: datetime) -> Question:
    return Question(
        Timeline.in_buckets(TimeSpan(since, until), BucketWidth.DAY, now),
        RunFilter(provider=provider),
        (PROVIDER, MODEL),
        limit=_MOST_MODELS,
    )


async def _read_runs(
    snapshots: Snapshots, control: Connection, question: Question, discounts: Sequence[Discount], days: Days
) -> None:
    """Read all days at once, or each by itself where they have too many runs together."""
    try:
        priced_alike = await read_priced_alike(snapshots, control, question, discounts)
    except DimensionNotTracked:
        timeline = question.timeline
        if len(timeline.starts) == 1:
            raise
        for start in timeline.starts:
            one = replace(
                question, timeline=Timeline.in_buckets(TimeSpan(start, start + DAY), BucketWidth.DAY, timeline.now)
            )
            await _read_runs(snapshots, control, one, discounts, days)
        return
    for row in priced_alike:
        days[question.timeline.starts[row.number].date()].append(row)


async def _read_sums(snapshots: Snapshots, question: Question) -> Iterator[tuple[date, PricedAlike]]:
    answer = await read_groups([GroupRowReader.of(snapshot) for snapshot in snapshots.every], question)
    return (
        (
            question.timeline.starts[number].date(),
            PricedAlike(
                number=number,
                group=group,
                entry_id=_ANY,
                project_id=None,
                provider=None,
                tier=None,
                region=None,
                runs=sums.totals.runs,
                priced=sums.totals.runs - sums.totals.unpriced,
                cost_usd=sums.totals.cost_usd,
                at=question.timeline.starts[number] + _NOON,
                input_tokens=0,
                usage=Usage(**{name: getattr(sums.totals, name) for name in COUNT_COLUMNS}),
            ),
        )
        for (number, group), sums in answer.slices.items()
    )


_ANY = 0
"""In place of the entries that priced runs which are gone."""

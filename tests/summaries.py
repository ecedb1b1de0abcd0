"""Summaries for tests: made up of what each bucket holds, or read as pages read them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from runtally.db.database import Connection
from runtally.usage.dimensions import BY_MODEL
from runtally.usage.filter import ALL_RUNS, RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.plan import STANDARD, LatencyDetail, Question
from runtally.usage.read import project_report
from runtally.usage.reader import UsageReader
from runtally.usage.report import ProjectReport
from runtally.usage.sketch import NO_LATENCY, Latencies, Latency
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Summary
from runtally.usage.totals import Totals, group_sum
from runtally.usage.window import TimeRange, Window


class Slice(NamedTuple):
    """The runs of one provider's model in one bucket."""

    bucket: datetime
    provider: str
    model: str
    totals: Totals


def new_memo() -> DayMemo:
    """Return a memo with room for all that a test reads."""
    return DayMemo(2**30)


def made_summary(
    window: Window,
    slices: Iterable[Slice] = (),
    latencies: Mapping[int, Latency] | None = None,
    whole: Latency = NO_LATENCY,
    bar: timedelta | None = None,
) -> Summary:
    """Return a summary of slices of the window's buckets, in bars as long as these unless they are said to be longer."""
    bar = bar or window.interval
    slices = tuple(slices)
    return Summary(
        window,
        BY_MODEL,
        window.in_buckets_of(bar),
        buckets=group_sum(((one.bucket - window.start) // window.interval, one.totals) for one in slices),
        groups=group_sum(((one.provider, one.model), one.totals) for one in slices),
        slices=group_sum(
            (((one.bucket - window.start) // bar, (one.provider, one.model)), one.totals) for one in slices
        ),
        latencies={number: Latencies(known=one) for number, one in (latencies or {}).items()},
        whole=Latencies(known=whole),
    )


def in_percentiles(summary: Summary) -> Summary:
    """Return the same with percentiles in place of sketches, which may be the same latencies in other parts."""
    settled = summary.settled()
    return replace(settled, whole=settled.whole.as_percentiles())


async def read_summary(  # noqa: PLR0913  # What is read, and with what.
    connection: Connection,
    window: Window,
    project_id: str | None,
    run_filter: RunFilter = ALL_RUNS,
    memo: DayMemo | None = None,
    *,
    latencies: LatencyDetail = LatencyDetail.BUCKETS,
) -> Summary:
    """Read what runs of a project, or of all with None, came to in each bucket of a window."""
    reader = UsageReader.of_page(Snapshots.of(connection, memo or DayMemo(0)), window, project_id)
    run_filter = run_filter.replace(project_id=project_id)
    question = Question(window, run_filter, BY_MODEL, STANDARD, latencies, bars=window)
    return await reader.summary(question)


async def read_report(  # noqa: PLR0913, PLR0917  # As above.
    connection: Connection,
    range_: TimeRange,
    now: datetime,
    project_id: str,
    run_filter: RunFilter = ALL_RUNS,
    memo: DayMemo | None = None,
) -> ProjectReport:
    """Read what the page of a project says."""
    window = Window.of(range_, now, range_.chart_interval)
    reader = UsageReader.of_page(Snapshots.of(connection, memo or DayMemo(0)), window, project_id)
    return await project_report(reader, window, run_filter)

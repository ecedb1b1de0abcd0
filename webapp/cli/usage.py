"""`runtally usage`: sums of runs by any dimension; and `runtally top`: the current traffic by model."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

import click

from api.cost_lines import line_groups
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.money import plain, to_usd
from runtally.runs.cost_lines import LINE, NAMES, CostLines, LineSum, measured, read_cost_lines
from runtally.settings import Settings
from runtally.usage.dimensions import BY_MODEL, DIMENSIONS, METADATA, OTHER, OTHER_NAME, Dimension, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import ALL_MEASURES, Group, GroupQuestion, Question
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Group as ModelGroup
from runtally.usage.timeline import BucketWidth, NamedRange, Timeline
from runtally.usage.totals import NO_RUNS, Totals, total_of
from runtally.usage.window import CustomRange, Window, ceil, floor
from webapp.cli.filters import ID, filter_options
from webapp.cli.opening import demand_project, with_database
from webapp.cli.output import Record, attributes, echo_json, echo_table, json_line, json_option, record, table

SUMS = ("RUNS", "FAILED", "COST USD", "INPUT", "OUTPUT", "CACHED", "P95 MS")
LINE_SUMS = ("COST USD", "QUANTITY")
NO_VALUE = "(none)"
_MAX_DIMENSIONS = 4
_NAMES = ", ".join((*DIMENSIONS, f"{METADATA}KEY", LINE))


class _By(NamedTuple):
    dimensions: tuple[Dimension, ...]
    has_lines: bool


def _dimensions(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> _By:
    """Return what all --by name together. Raises `click.BadParameter`."""
    names = [name.strip() for name in ",".join(given).split(",") if name.strip()]
    found = tuple(dict.fromkeys(one for name in names if (one := dimension_named(name))))
    if len(found) + (LINE in names) != len(names):
        raise click.BadParameter(f"name each once, out of {_NAMES}")
    if len(found) > _MAX_DIMENSIONS:
        raise click.BadParameter(f"name at most {_MAX_DIMENSIONS}")
    return _By(found, LINE in names)


@click.command()
@click.option(
    "--by",
    multiple=True,
    default=["provider,model"],
    callback=_dimensions,
    help=f"Dimensions to group rows by: {_NAMES}; several with commas, or by several --by. With line the rows are the lines of "
    "the cost. By default provider,model.",
)
@click.option(
    "--range",
    "name",
    type=click.Choice([one.value for one in NamedRange]),
    default=NamedRange.LAST_7_DAYS.value,
    show_default=True,
    help="The time range, in UTC.",
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Show at most this number of rows."
)
@filter_options(has_time=False)
@json_option
def usage(sought: RunFilter, by: _By, name: str, limit: int, *, as_json: bool) -> None:
    """Print sums of runs by any dimension, as `GET /api/usage` does, most expensive first.

    \b
    Examples:
      runtally usage --range this-month
      runtally usage --project support-agent --by metadata.feature,model
      runtally usage --by user --status failed --json
      runtally usage --by line,model --service-tier batch
    """

    async def work(settings: Settings, database: Database) -> GroupAnswer | CostLines:
        await demand_project(database, sought.project_id)
        now = system_clock()
        timeline = Timeline.whole(NamedRange(name).span(now, BucketWidth.HOUR), now)
        archive = ArchivedRuns.of(settings, database, system_clock)
        async with Reader.opened(database, settings.read_database_url) as reading, reading.snapshot() as connection:
            question = GroupQuestion(timeline, sought, by.dimensions, limit=limit)
            snapshots = Snapshots.of(connection, DayMemo(0), ArchivedGroupReader(archive) if archive else None)
            if by.has_lines:
                return await read_cost_lines(snapshots, connection, question)
            return await read_groups([GroupRowReader.of(one) for one in snapshots.every], question)

    found = with_database(work)
    if as_json:
        echo_json(_record(found))
        return
    span, names = found.question.timeline.span, [one.name.upper() for one in by.dimensions]
    if isinstance(found, CostLines):
        rows = [
            (*map(_name, group), NAMES[line], *_line_cells(line, sums))
            for group, of_group in found.groups.items()
            for line, sums in of_group.sorted
        ]
        echo_table([*names, "LINE", *LINE_SUMS], rows, numbers=LINE_SUMS)
    else:
        rows = [(*map(_name, group), *_cells(sums)) for group, sums in found.groups.items()]
        echo_table([*names, *SUMS], rows, numbers=SUMS)
    click.echo(f"From {span.since:%Y-%m-%d %H:%M} until {span.until:%Y-%m-%d %H:%M} UTC.", err=True)


def _name(value: str | None) -> str:
    return NO_VALUE if value is None else OTHER_NAME if value == OTHER else value


def _cells(sums: Sums) -> Sequence[str]:
    totals, latency = sums.totals, sums.latency
    return (
        f"{totals.runs:,}",
        f"{totals.failed:,}",
        plain(totals.cost_usd),
        f"{totals.input_tokens:,}",
        f"{totals.output_tokens:,}",
        f"{totals.cached_input_tokens:,}",
        "-" if latency is None or not totals.runs else f"{latency.p95_ms:,.0f}",
    )


def _line_cells(line: str, sums: LineSum) -> Sequence[str]:
    return plain(sums.amount_usd), "-" if measured(line) is None else f"{sums.quantity:,}"


def _record(found: GroupAnswer | CostLines) -> Record:
    question, span = found.question, found.question.timeline.span
    names = [one.name for one in question.by]
    return record(
        start=span.since.astimezone(UTC),
        end=span.until.astimezone(UTC),
        group_by=[*names, LINE] if isinstance(found, CostLines) else names,
        overlapping=found.question.is_overlapping,
        totals=[line for group, sums in found.groups.items() for line in line_groups((*names, LINE), group, sums)]
        if isinstance(found, CostLines)
        else [_row(names, group, sums) for group, sums in found.groups.items()],
    )


def _row(names: Sequence[str], group: Group, sums: Sums) -> Record:
    totals, latency = sums.totals, sums.latency
    values = {name: OTHER_NAME if value == OTHER else value for name, value in zip(names, group, strict=True)}
    return {"group": values} | record(
        **attributes(totals, *ALL_MEASURES),
        p50_latency_ms=latency.p50_ms if latency else None,
        p95_latency_ms=latency.p95_ms if latency else None,
    )


MEASURES = ("runs", "errors", "timeouts", "cost_usd")
RATE_SECONDS: Final = 60.0
"""The time that rates are computed over; a longer one would hide changes that have just begun."""
_BUCKET: Final = timedelta(minutes=15)
_SHOWN: Final = 30


@dataclass(frozen=True, slots=True)
class Reading:
    """The sums of about the last hour by provider and model, and when they were read."""

    at: datetime
    since: datetime
    groups: Mapping[ModelGroup, Totals]


@dataclass(frozen=True, slots=True)
class Rates:
    """The traffic between two readings."""

    now: Reading
    seconds: float
    traffic: Mapping[ModelGroup, Totals]

    @classmethod
    def between(cls, first: Reading, last: Reading) -> "Rates":
        """Return the traffic between two readings; zero instead of negative figures if runs were deleted or repriced."""
        traffic = {
            group: Totals._make(max(value, type(value)(0)) for value in totals - first.groups.get(group, NO_RUNS))
            for group, totals in last.groups.items()
        }
        return cls(last, (last.at - first.at).total_seconds(), traffic)

    def runs_per_second(self, totals: Totals) -> float:
        return totals.runs / self.seconds if self.seconds else 0.0

    def cost_per_hour(self, totals: Totals) -> Decimal:
        return totals.cost_usd * 3600 / Decimal(str(self.seconds)) if self.seconds else Decimal(0)

    @property
    def ranked(self) -> list[ModelGroup]:
        """The groups: what costs most at present comes first, and then what cost most in the last hour."""
        return sorted(
            self.now.groups,
            key=lambda group: (
                -self.traffic[group].cost_usd,
                -self.traffic[group].runs,
                -self.now.groups[group].cost_usd,
                group,
            ),
        )


@click.command()
@click.option("--project", "project_id", type=ID, help="Only runs of this project.")
@click.option(
    "--every", type=click.FloatRange(0.5, 3600), default=2.0, show_default=True, help="Seconds between readings."
)
@click.option("--once", is_flag=True, help="Read twice, print the traffic in between, and end.")
@json_option
def top(*, project_id: str | None, every: float, once: bool, as_json: bool) -> None:
    """Show runs a second, cost an hour and errors by model, live, until Ctrl-C.

    Rates are those of the last minute. --json prints one object a line for each reading.

    \b
    Examples:
      runtally top
      runtally top --project support-agent --once --json
    """

    async def work(_settings: Settings, database: Database) -> None:
        await demand_project(database, project_id)
        async for rates in _rates(database, project_id, every):
            _show(rates, as_json=as_json, is_live=not once)
            if once:
                return

    try:
        with_database(work)
    except KeyboardInterrupt:
        click.echo()


async def _rates(database: Database, project_id: str | None, every: float) -> AsyncIterator[Rates]:
    # All readings of the last minute start at the same bucket: without its first bucket, a reading would have fewer runs.
    since = _hour_before(system_clock())
    seen = deque([await _read(database, project_id, since)])
    while True:
        await asyncio.sleep(every)
        now = system_clock()
        while len(seen) > 1 and (now - seen[1].at).total_seconds() >= RATE_SECONDS:
            seen.popleft()
        last = await _read(database, project_id, since)
        seen.append(last)
        yield Rates.between(seen[0], last)
        if _hour_before(now) > since:
            since = _hour_before(now)
            seen = deque([await _read(database, project_id, since)])


async def _read(database: Database, project_id: str | None, since: datetime) -> Reading:
    now = system_clock()
    window = Window.of(CustomRange(since, ceil(now + timedelta(microseconds=1), _BUCKET)), now, _BUCKET)
    async with database.snapshot() as connection:
        reader = UsageReader(Snapshots.of(connection, DayMemo(0)), now, project_id, window.start)
        question = Question(window, RunFilter(project_id=project_id), by=BY_MODEL, measures=MEASURES, has_buckets=False)
        summary = await reader.summary(question)
    return Reading(now, since, summary.groups)


def _hour_before(now: datetime) -> datetime:
    return floor(now - timedelta(hours=1), _BUCKET)


def _show(rates: Rates, *, as_json: bool, is_live: bool) -> None:
    if as_json:
        click.echo(json_line(_rates_record(rates)))
        return
    if is_live and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(_lines(rates)))


def _lines(rates: Rates) -> list[str]:
    traffic, since = total_of(rates.traffic.values()), f"SINCE {rates.now.since:%H:%M}"
    headings = ("PROVIDER", "MODEL", "RUNS/S", "USD/H", "ERRORS", f"RUNS {since}", "USD", "ERROR RATE")
    rows = [_rates_row(rates, group) for group in rates.ranked[:_SHOWN]]
    headline = (
        f"{rates.now.at:%Y-%m-%d %H:%M:%S} UTC, over {rates.seconds:.0f} s: {rates.runs_per_second(traffic):,.1f} runs/s, "
        f"{rates.cost_per_hour(traffic):,.4f} USD/h, {traffic.failed:,} errors"
    )
    return [
        headline,
        "",
        *table(headings, rows, numbers=headings[2:]),
    ]


def _rates_row(rates: Rates, group: ModelGroup) -> tuple[str, ...]:
    provider, model = group
    traffic, totals = rates.traffic[group], rates.now.groups[group]
    return (
        provider,
        model,
        f"{rates.runs_per_second(traffic):,.1f}",
        f"{rates.cost_per_hour(traffic):,.4f}",
        f"{traffic.failed:,}",
        f"{totals.runs:,}",
        f"{totals.cost_usd:,.4f}",
        f"{totals.error_rate:.2%}",
    )


def _rates_record(rates: Rates) -> Record:
    def of(traffic: Totals, totals: Totals, **names: object) -> Record:
        return record(
            **names,
            runs_per_second=round(rates.runs_per_second(traffic), 3),
            usd_per_hour=to_usd(rates.cost_per_hour(traffic)),
            errors=traffic.failed,
            since=record(at=rates.now.since, runs=totals.runs, cost_usd=totals.cost_usd, errors=totals.failed),
        )

    return {
        **of(
            total_of(rates.traffic.values()),
            total_of(rates.now.groups.values()),
            at=rates.now.at,
            seconds=rates.seconds,
        ),
        "models": [
            of(rates.traffic[group], rates.now.groups[group], provider=group[0], model=group[1])
            for group in rates.ranked
        ],
    }

"""`runtally top`: the current traffic by model."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.money import to_usd
from runtally.settings import Settings
from runtally.usage.dimensions import BY_MODEL
from runtally.usage.filter import RunFilter
from runtally.usage.memo import DayMemo
from runtally.usage.plan import Question
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.summary import Group
from runtally.usage.totals import NO_RUNS, Totals, total_of
from runtally.usage.window import CustomRange, Window, ceil, floor
from webapp.cli.filters import ID
from webapp.cli.opening import demand_project, with_database
from webapp.cli.output import Record, json_line, json_option, record, table

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
    groups: Mapping[Group, Totals]


@dataclass(frozen=True, slots=True)
class Rates:
    """The traffic between two readings."""

    now: Reading
    seconds: float
    traffic: Mapping[Group, Totals]

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
    def ranked(self) -> list[Group]:
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
        click.echo(json_line(_record(rates)))
        return
    if is_live and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(_lines(rates)))


def _lines(rates: Rates) -> list[str]:
    traffic, since = total_of(rates.traffic.values()), f"SINCE {rates.now.since:%H:%M}"
    headings = ("PROVIDER", "MODEL", "RUNS/S", "USD/H", "ERRORS", f"RUNS {since}", "USD", "ERROR RATE")
    rows = [_row(rates, group) for group in rates.ranked[:_SHOWN]]
    headline = (
        f"{rates.now.at:%Y-%m-%d %H:%M:%S} UTC, over {rates.seconds:.0f} s: {rates.runs_per_second(traffic):,.1f} runs/s, "
        f"{rates.cost_per_hour(traffic):,.4f} USD/h, {traffic.failed:,} errors"
    )
    return [
        headline,
        "",
        *table(headings, rows, numbers=headings[2:]),
    ]


def _row(rates: Rates, group: Group) -> tuple[str, ...]:
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


def _record(rates: Rates) -> Record:
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

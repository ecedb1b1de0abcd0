"""`runtally usage`."""

from collections.abc import Sequence
from datetime import UTC
from typing import NamedTuple

import click

from api.cost_lines import line_groups
from api.usage import group_of
from runtally.access import projects
from runtally.archive.groups import ArchivedGroupReader
from runtally.archive.reading import ArchivedRuns
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.money import plain
from runtally.runs.cost_lines import LINE, NAMES, CostLines, LineSum, measured, read_cost_lines
from runtally.settings import Settings
from runtally.usage.dimensions import DIMENSIONS, METADATA, OTHER, OTHER_NAME, Dimension, dimension_named
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import BucketWidth, Timeline
from runtally.usage.window import NamedRange
from webapp.cli.filters import filter_options
from webapp.cli.opening import with_database
from webapp.cli.output import Record, echo, echo_json, echo_table, json_option, record

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
    type=click.Choice([range_.value for range_ in NamedRange]),
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
        if sought.project_id is not None:
            async with database.session() as session:
                await projects.get(session, sought.project_id)
        now = system_clock()
        timeline = Timeline.whole(NamedRange(name).span(now, BucketWidth.HOUR), now)
        archive = ArchivedRuns.of(settings, database, system_clock)
        async with Reader.opened(database, settings.read_database_url) as reading, reading.snapshot() as connection:
            question = Question(timeline, sought, by.dimensions, latencies=LatencyDetail.WHOLE, limit=limit)
            snapshots = Snapshots.of(connection, DayMemo(0), ArchivedGroupReader(archive) if archive else None)
            if by.has_lines:
                return await read_cost_lines(snapshots, connection, question)
            return await read_groups([GroupRowReader.of(snapshot) for snapshot in snapshots.every], question)

    found = with_database(work)
    if as_json:
        echo_json(_record(found))
        return
    span, names = found.question.timeline.span, [dimension.name.upper() for dimension in by.dimensions]
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
    echo(f"From {span.since:%Y-%m-%d %H:%M} until {span.until:%Y-%m-%d %H:%M} UTC.", err=True)


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
    names = tuple(dimension.name for dimension in question.by)
    return record(
        start=span.since.astimezone(UTC),
        end=span.until.astimezone(UTC),
        group_by=(*names, LINE) if isinstance(found, CostLines) else names,
        overlapping=found.question.is_overlapping,
        totals=[line for group, sums in found.groups.items() for line in line_groups((*names, LINE), group, sums)]
        if isinstance(found, CostLines)
        else [group_of(names, group, sums) for group, sums in found.groups.items()],
    )

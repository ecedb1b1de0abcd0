"""`runtally runs`: list, export."""

import asyncio
from contextlib import aclosing
from typing import BinaryIO

import click

from runtally.archive.reading import ArchivedRuns
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.errors import ArchiveError
from runtally.money import plain
from runtally.runs.export import ExportSource, Format, export
from runtally.runs.position import Direction, Position
from runtally.runs.read import RunPage, read_page
from runtally.runs.sources import RunSource
from runtally.runs.values import ListedRun
from runtally.settings import Settings
from runtally.usage.filter import RunFilter
from webapp.cli.filters import filter_options
from webapp.cli.opening import with_database
from webapp.cli.output import Record, echo_if_none, echo_json, echo_table, json_option, record

HEADINGS = ("TIME (UTC)", "PROJECT", "PROVIDER", "MODEL", "STATUS", "INPUT", "OUTPUT", "MS", "COST USD", "RUN")
NUMBERS = frozenset({"INPUT", "OUTPUT", "MS", "COST USD"})


@click.group()
def runs() -> None:
    """Runs: list, export; filtered as on the pages.

    \b
    Example: runtally runs list --project support-agent --status failed
    """


@runs.command("list")
@filter_options()
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Show at most this number of runs."
)
@json_option
def list_runs(sought: RunFilter, limit: int, *, as_json: bool) -> None:
    """List runs, the newest first.

    \b
    Examples:
      runtally runs list --project support-agent --status failed
      runtally runs list --min-cost 0.5 --range 30d --json
    """

    async def work(settings: Settings, database: Database) -> list[ListedRun]:
        archive = ArchivedRuns.of(settings, database, system_clock)
        async with Reader.opened(database, settings.read_database_url) as reading:
            return await _newest(reading, archive, sought, limit + 1)

    found = with_database(work)
    if as_json:
        echo_json(map(_record, found[:limit]))
    else:
        echo_table(HEADINGS, map(_row, found[:limit]), numbers=NUMBERS)
        echo_if_none(found, "No runs match; --range looks further back.")
    if len(found) > limit:
        click.echo(f"There are more than {limit:,}; narrow it, raise --limit, or use `runtally runs export`.", err=True)


@runs.command("export")
@filter_options()
@click.option(
    "--format",
    "name",
    type=click.Choice([one.value for one in Format]),
    default=Format.CSV.value,
    show_default=True,
    help="The format of the file.",
)
@click.option("--output", type=click.File("wb", lazy=False), default="-", help="The file; without it, standard output.")
def export_runs(sought: RunFilter, name: str, output: BinaryIO) -> None:
    """Write every column of all runs that match, the newest first.

    \b
    Examples:
      runtally runs export --project support-agent --range 30d --output runs.csv
      runtally runs export --format jsonl --status failed | jq .model
    """
    format_ = Format.parse(name)
    count = 0

    def add(more: int) -> None:
        nonlocal count
        count += more

    async def work(settings: Settings, database: Database) -> None:
        archive = ArchivedRuns.of(settings, database, system_clock)
        async with (
            Reader.opened(database, settings.read_database_url) as reading,
            aclosing(export([ExportSource(reading, archive)], sought, system_clock(), format_, add)) as parts,
        ):
            async for part in parts:
                # A pipe may take its time, which is nobody else's here.
                await asyncio.to_thread(output.write, part)

    with_database(work)
    click.echo(f"{count:,} runs.", err=True)


async def _newest(reading: Reader, archive: ArchivedRuns | None, sought: RunFilter, limit: int) -> list[ListedRun]:
    """Raises `ArchiveError` where archived runs are among them that cannot be read."""
    found: list[ListedRun] = []
    now, position = system_clock(), Position()
    while len(found) < limit:
        async with reading.snapshot() as connection:
            page: RunPage = await read_page([RunSource(connection, archive)], sought, now, position)
        if page.problem:
            raise ArchiveError(page.problem)
        found += page.runs
        if page.older is None:
            break
        position = Position(Direction.OLDER, page.older)
    return found[:limit]


def _record(run: ListedRun) -> Record:
    return record(
        project_id=run.project_id,
        run_id=run.id,
        timestamp=run.occurred_at,
        provider=run.provider,
        model=run.model,
        status=run.status,
        error_code=run.error_code,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cached_input_tokens=run.cached_input_tokens,
        latency_ms=run.latency_ms,
        cost_usd=run.cost_usd,
        cost_estimated=run.cost_estimated,
        experiment_id=run.experiment_id,
        trace_id=run.trace_id,
    )


def _row(run: ListedRun) -> tuple[str, ...]:
    return (
        f"{run.occurred_at:%Y-%m-%d %H:%M:%S}",
        run.project_id,
        run.provider,
        run.model,
        run.status,
        *(("-" if value is None else f"{value:,}") for value in (run.input_tokens, run.output_tokens, run.latency_ms)),
        "-" if run.cost_usd is None else plain(run.cost_usd),
        run.id,
    )

"""`runtally runs`: list, export, erase."""

import asyncio
from contextlib import aclosing
from typing import BinaryIO

import click

from runtally.access.erasure import ChosenBy, ChosenRuns, FoundRuns, erase_chosen, look_up
from runtally.access.erasures import ERASED, names_of
from runtally.archive.reading import ArchivedRuns
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.replica import Reader
from runtally.errors import ArchiveError
from runtally.money import plain
from runtally.names import LiveNames, is_hash
from runtally.runs.archived import RunSource
from runtally.runs.export import ExportSource, Format, export
from runtally.runs.read import RunPage, read_page
from runtally.runs.values import Direction, ListedRun, Position
from runtally.settings import Settings
from runtally.usage.filter import RunFilter
from runtally.usage.overview.project_queries import select_listed
from webapp.cli.filters import filter_options
from webapp.cli.opening import places_of, with_database
from webapp.cli.output import Progress, Record, attributes, echo_if_none, echo_json, echo_table, json_option, record

HEADINGS = ("TIME (UTC)", "PROJECT", "PROVIDER", "MODEL", "STATUS", "INPUT", "OUTPUT", "MS", "COST USD", "RUN")
NUMBERS = frozenset({"INPUT", "OUTPUT", "MS", "COST USD"})


@click.group()
def runs() -> None:
    """Runs: list, export, filtered as on the pages; erase those of a person.

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


@runs.command("erase")
@click.option("--user", required=True, help="The user whose runs they are: name or hash, as runs have it.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
def erase_runs(user: str, *, dry_run: bool, yes: bool) -> None:
    """Delete all runs of a user in every project, for good, after a look at how many they are.

    They leave the database, sums, the relay's queue, the reporting table, here or in REPORTING_DATABASE_URL, and the files of
    ARCHIVE_URL; what a receiver at SERVICE_SYNC_URL has stays. The audit log has an entry for each project, with the hash of the
    name. Where there are several cells, run it with --cell for each.

    \b
    Examples:
      runtally runs erase --user ann@example.com --dry-run
      runtally runs erase --user "user 7f3a9c2e51d04b66" --yes
    """

    async def look(settings: Settings, database: Database) -> tuple[str, list[tuple[ChosenRuns, FoundRuns]]]:
        names = names_of(user, LiveNames.of(settings, database))
        async with database.connection() as connection:
            projects = [one.id for one in await select_listed(connection, None)]
        found = []
        async with places_of(settings, database) as places:
            with Progress("Counting") as progress:
                for number, project_id in enumerate(projects):
                    progress.show(number, len(projects), project_id)
                    chosen = ChosenRuns(project_id, ChosenBy.USER, names)
                    found.append((chosen, await look_up(places, chosen)))
        label = names[-1] if is_hash("user", names[-1]) else "user"
        return label, [(chosen, one) for chosen, one in found if one.runs or one.reported]

    label, found = with_database(look)
    if not found:
        click.echo("No project has runs of this user; nothing was deleted.")
        raise click.exceptions.Exit(1)
    counts = ((one.project_id, *(f"{n:,}" for n in (at.live, at.archived, at.reported))) for one, at in found)
    echo_table(("PROJECT", "LIVE", "ARCHIVED", "REPORTED"), counts, numbers={"LIVE", "ARCHIVED", "REPORTED"})
    if dry_run or not (yes or click.confirm("Delete them for good?")):
        click.echo("Nothing was deleted.")
        return

    async def erase(settings: Settings, database: Database) -> int:
        erased = 0
        async with places_of(settings, database) as places:
            with Progress("Erasing") as progress:
                for number, (chosen, _) in enumerate(found):
                    progress.show(number, len(found), chosen.project_id)
                    erased += (await erase_chosen(places, OPERATOR, chosen, system_clock, ERASED, label)).runs
        return erased

    click.echo(f"Deleted {with_database(erase):,} runs of {label}.")


async def _newest(reading: Reader, archive: ArchivedRuns | None, sought: RunFilter, limit: int) -> list[ListedRun]:
    """Raises `ArchiveError` where archived runs are among them that cannot be read."""
    found: list[ListedRun] = []
    now, position = system_clock(), Position()
    while len(found) < limit:
        async with reading.snapshot() as connection:
            page: RunPage[ListedRun] = await read_page([RunSource(connection, archive)], sought, now, position)
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
        **attributes(run, "provider", "model", "status", "error_code"),
        **attributes(run, "input_tokens", "output_tokens", "cached_input_tokens", "latency_ms"),
        **attributes(run, "cost_usd", "cost_estimated", "experiment_id", "trace_id"),
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

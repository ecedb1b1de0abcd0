"""`runtally runs`: export, erase."""

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
from runtally.names import LiveNames, is_hash
from runtally.runs.export import ExportSource, Format, export
from runtally.settings import Settings
from runtally.usage.filter import RunFilter
from runtally.usage.overview.project_queries import select_listed
from webapp.cli.filters import filter_options
from webapp.cli.opening import places_of, with_database
from webapp.cli.output import Progress, echo, echo_table


@click.group()
def runs() -> None:
    """Runs: export, filtered as on the pages; erase those of a person.

    \b
    Example: runtally runs export --project support-agent --status failed --format jsonl
    """


@runs.command("export")
@filter_options()
@click.option(
    "--format",
    "name",
    type=click.Choice([format_.value for format_ in Format]),
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
    echo(f"{count:,} runs.", err=True)


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
        echo("No project has runs of this user; nothing was deleted.")
        raise click.exceptions.Exit(1)
    counts = ((one.project_id, *(f"{n:,}" for n in (at.live, at.archived, at.reported))) for one, at in found)
    echo_table(("PROJECT", "LIVE", "ARCHIVED", "REPORTED"), counts, numbers={"LIVE", "ARCHIVED", "REPORTED"})
    if dry_run or not (yes or click.confirm("Delete them for good?")):
        echo("Nothing was deleted.")
        return

    async def erase(settings: Settings, database: Database) -> int:
        erased = 0
        async with places_of(settings, database) as places:
            with Progress("Erasing") as progress:
                for number, (chosen, _) in enumerate(found):
                    progress.show(number, len(found), chosen.project_id)
                    erased += (await erase_chosen(places, OPERATOR, chosen, system_clock, ERASED, label)).runs
        return erased

    echo(f"Deleted {with_database(erase):,} runs of {label}.")

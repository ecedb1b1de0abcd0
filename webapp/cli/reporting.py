"""`runtally reporting`: verify."""

import sys
from collections.abc import Iterator

import click

from runtally.archive.reading import ArchivedRuns
from runtally.clock import system_clock
from runtally.db.database import Database, reporting_database
from runtally.money import plain
from runtally.reporting.verify import SHOWN_DAYS, SHOWN_RUNS, DayDifference, Queue, Verification, Verifier
from runtally.settings import Settings
from webapp.cli.opening import with_database


@click.group()
def reporting() -> None:
    """The reporting table: prove that it has every live run.

    \b
    Example: runtally reporting verify
    """


@reporting.command()
@click.option("--repair", is_flag=True, help="Queue missing or different runs for the relay.")
@click.option(
    "--ignore-waiting",
    is_flag=True,
    help="Do not count runs that wait for the relay as differences; for busy services.",
)
def verify(*, repair: bool, ignore_waiting: bool) -> None:
    """Compare live runs with the reporting table: counts, sums and a checksum by project and day.

    Exits with 1 if they differ. Runs that are no longer live are no difference, and archived ones are counted and added up. Metadata and prompt previews are not
    compared, because the privacy settings of the receiver may have thinned them out.

    \b
    Example: runtally reporting verify --repair
    """

    async def work(settings: Settings, database: Database) -> Verification:
        async with reporting_database(settings.reporting_database_url, database) as reporting:
            archive = ArchivedRuns.of(settings, database, system_clock)
            return await Verifier(database, reporting, archive).verify(system_clock(), repair=repair)

    found = with_database(work)
    for line in lines_of(found):
        click.echo(line)
    if found.archived_days or found.differing - (found.queues[Queue.WAITING] if ignore_waiting else 0):
        sys.exit(1)


def lines_of(found: Verification) -> Iterator[str]:
    """The verdict, and the first days and runs that differ."""
    yield f"{found.runs:,} runs compared, on {found.days:,} days of {found.projects:,} projects."
    if found.kept:
        yield f"{found.kept:,} runs are kept here that are no longer live."
    yield from _lines_of_archive(found)
    if not found.differing:
        yield "The reporting table has all of them, and they are equal."
        return
    for difference in found.first:
        yield from _lines_of_day(difference)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.kinds.items()))
    queues = ", ".join(f"{count:,} {queue}" for queue, count in sorted(found.queues.items()))
    yield f"{found.differing:,} runs differ ({kinds}); of these {queues}."
    if found.repaired:
        yield f"{found.repaired:,} runs were queued for the relay."
    elif found.differing > found.queues[Queue.WAITING]:
        yield "`runtally reporting verify --repair` queues them again."
    else:
        yield "They wait for the relay; `runtally relay --once` pushes them now."


def _lines_of_archive(found: Verification) -> Iterator[str]:
    if not found.archived:
        return
    missing = found.archived_missing
    lacking = (
        f"{missing:,} {'is' if missing == 1 else 'are'} missing from the reporting table"
        if missing
        else "all are in the reporting table"
    )
    yield f"{found.archived:,} archived runs were counted, and their cost and tokens added up by day: {lacking}."
    for project_id, day in found.archived_days[:SHOWN_DAYS]:
        yield f"{project_id} {day}: the reporting table has fewer runs than the archive and the database, or other sums"


def _lines_of_day(difference: DayDifference) -> Iterator[str]:
    live, reported = difference.live, difference.reported
    yield (
        f"{difference.project_id} {difference.day}: {live.runs:,} live runs for {plain(live.cost_usd)} USD, "
        f"{reported.runs:,} reported for {plain(reported.cost_usd)} USD"
    )
    for run in difference.first:
        yield f"  {run.run_id}: {run.kind}, {run.queue}"
    if len(difference.first) == SHOWN_RUNS:
        yield "  and perhaps more"

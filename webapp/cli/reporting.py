"""`runtally relay`, and `runtally reporting`: verify."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import click

from runtally.archive.reading import ArchivedRuns
from runtally.audit import OPERATOR, Change, record
from runtally.clock import system_clock
from runtally.db.database import Database, reporting_database
from runtally.jobs import long_job, repeat
from runtally.money import plain
from runtally.reporting.outbox_queries import get_relay_status, retry_parked, select_parked
from runtally.reporting.relay import Relay
from runtally.reporting.remote import opened_relay
from runtally.reporting.verify import SHOWN_DAYS, SHOWN_RUNS, DayDifference, Queue, Verification, Verifier
from runtally.settings import Settings
from webapp.cli.opening import with_database
from webapp.cli.output import echo


@click.group(epilog="Example: runtally reporting verify")
def reporting() -> None:
    """The reporting table: prove that it has every live run."""


@reporting.command(epilog="Example: runtally reporting verify --repair")
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
    """

    async def work(settings: Settings, database: Database) -> Verification:
        async with reporting_database(settings.reporting_database_url, database) as reporting:
            archive = ArchivedRuns.of(settings, database, system_clock)
            return await Verifier(database, reporting, archive).verify(system_clock(), repair=repair)

    found = with_database(work)
    for line in lines_of(found):
        echo(line)
    if found.archived_days or found.differing - (found.queues[Queue.WAITING] if ignore_waiting else 0):
        sys.exit(1)


def lines_of(verification: Verification) -> Iterator[str]:
    """The verdict, and the first days and runs that differ."""
    yield f"{verification.runs:,} runs compared, on {verification.days:,} days of {verification.projects:,} projects."
    if verification.kept:
        yield f"{verification.kept:,} runs are kept here that are no longer live."
    yield from _lines_of_archive(verification)
    if not verification.differing:
        yield "The reporting table has all of them, and they are equal."
        return
    for difference in verification.first:
        yield from _lines_of_day(difference)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(verification.kinds.items()))
    queues = ", ".join(f"{count:,} {queue}" for queue, count in sorted(verification.queues.items()))
    yield f"{verification.differing:,} runs differ ({kinds}); of these {queues}."
    if verification.repaired:
        yield f"{verification.repaired:,} runs were queued for the relay."
    elif verification.differing > verification.queues[Queue.WAITING]:
        yield "`runtally reporting verify --repair` queues them again."
    else:
        yield "They wait for the relay; `runtally relay --once` pushes them now."


def _lines_of_archive(verification: Verification) -> Iterator[str]:
    if not verification.archived:
        return
    missing = verification.archived_missing
    lacking = (
        f"{missing:,} {'is' if missing == 1 else 'are'} missing from the reporting table"
        if missing
        else "all are in the reporting table"
    )
    yield f"{verification.archived:,} archived runs were counted, and their cost and tokens added up by day: {lacking}."
    for project_id, day in verification.archived_days[:SHOWN_DAYS]:
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


LISTED = 100


@click.command(epilog="Example: runtally relay --once")
@click.option(
    "--once",
    is_flag=True,
    help="Push the runs that are due now, and exit; the exit code is 1 if any of them was not accepted.",
)
@click.option(
    "--retry-parked", is_flag=True, help="Queue all parked runs again, and exit; with --once, also push them."
)
@click.option("--list-parked", is_flag=True, help=f"List the runs that were given up last, at most {LISTED}, and end.")
def relay(*, once: bool, retry_parked: bool, list_parked: bool) -> None:
    """Push stored and changed runs to the reporting table, until a signal ends it.

    `runtally serve` does it too, unless RELAY=off; any number of relays share the work.
    """
    if list_parked:
        if once or retry_parked:
            raise click.UsageError("--list-parked only looks; say it alone.")
        with_database(_list_parked)
        return
    if retry_parked:
        echo(f"{with_database(_requeue):,} parked runs are queued again.")
    if once:
        failed = with_database(_push_what_is_due)
        if failed:
            raise click.ClickException(f"{failed:,} pushes failed; the relay tries them again.")
    elif not retry_parked:
        with_database(_push_until_a_signal, waits=True)


async def _list_parked(_settings: Settings, database: Database) -> None:
    async with database.snapshot() as connection:
        status, parked = await get_relay_status(connection), await select_parked(connection, LISTED)
    for run in parked:
        echo(f"{run.parked_at:%F %R}  {run.project_id}  {run.run_id}  {run.last_error}")
    hidden = f"; the last {len(parked):,} are above" if status.parked > len(parked) else ""
    echo(f"{status.parked:,} runs are parked{hidden}.")


async def _requeue(_settings: Settings, database: Database) -> int:
    async with database.connection() as connection:
        runs = await retry_parked(connection, system_clock())
    async with database.session() as session:
        record(session, OPERATOR, Change("relay.retried", "all parked runs", after={"runs": runs}))
    return runs


async def _push_what_is_due(settings: Settings, database: Database) -> int:
    delivered = failed = 0
    async with _relay_of(settings, database) as relay:
        while (done := await relay.run_pass()).taken:
            delivered, failed = delivered + done.delivered, failed + len(done.failed)
            if done.receiver_down:
                break
    async with database.connection() as connection:
        status = await get_relay_status(connection)
    echo(f"{delivered:,} runs pushed; {status.waiting_words} wait, {status.parked:,} are parked.")
    return failed


async def _push_until_a_signal(settings: Settings, database: Database) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _relay_of(settings, database) as relay:
        echo(f"Pushing runs to {relay.receiver}; Ctrl-C ends it.")
        await repeat(long_job("relay", relay.work), stop)


@asynccontextmanager
async def _relay_of(settings: Settings, database: Database) -> AsyncIterator[Relay]:
    async with (
        reporting_database(settings.reporting_database_url, database) as reporting,
        opened_relay(settings, database, reporting, system_clock) as relay,
    ):
        yield relay

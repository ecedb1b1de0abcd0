"""`runtally relay`."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from runtally.audit import OPERATOR, Change, record
from runtally.clock import system_clock
from runtally.db.database import Database, reporting_database
from runtally.jobs import long_job, repeat
from runtally.reporting.outbox_queries import get_relay_status, retry_parked, select_parked
from runtally.reporting.relay import Relay
from runtally.reporting.remote import opened_relay
from runtally.settings import Settings
from webapp.cli.opening import with_database

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
        click.echo(f"{with_database(_requeue):,} parked runs are queued again.")
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
        click.echo(f"{run.parked_at:%F %R}  {run.project_id}  {run.run_id}  {run.last_error}")
    hidden = f"; the last {len(parked):,} are above" if status.parked > len(parked) else ""
    click.echo(f"{status.parked:,} runs are parked{hidden}.")


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
    click.echo(f"{delivered:,} runs pushed; {status.waiting_words} wait, {status.parked:,} are parked.")
    return failed


async def _push_until_a_signal(settings: Settings, database: Database) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _relay_of(settings, database) as relay:
        click.echo(f"Pushing runs to {relay.receiver}; Ctrl-C ends it.")
        await repeat(long_job("relay", relay.work), stop)


@asynccontextmanager
async def _relay_of(settings: Settings, database: Database) -> AsyncIterator[Relay]:
    async with (
        reporting_database(settings.reporting_database_url, database) as reporting,
        opened_relay(settings, database, reporting, system_clock) as relay,
    ):
        yield relay

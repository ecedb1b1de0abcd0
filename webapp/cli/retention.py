"""`runtally retention`: drop."""

import asyncio

import click

from runtally.archive.archive import Archive
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.retention import RULE_SPREAD_SECONDS, Dropper
from runtally.settings import Settings, load_settings
from webapp.cli.opening import with_database
from webapp.cli.output import echo


@click.group(epilog="Example: runtally retention drop")
def retention() -> None:
    """Runs that are older than their project keeps them. Sums and reported runs are always kept."""


@retention.command(epilog="Example: runtally retention drop")
def drop() -> None:
    """Drop what is too old now, as the service does every few minutes: with ARCHIVE_URL into the archive. May be run again."""

    async def work(settings: Settings, database: Database) -> int:
        echo(f"Waiting {RULE_SPREAD_SECONDS:.0f} s for every process to hear of it, if there is anything new to drop.")
        archive = Archive.of(settings, database, system_clock)
        dropper, runs = Dropper(database, settings.retention_days, system_clock, archive), 0
        async for dropped in dropper.run_pass(asyncio.Event()):
            runs += dropped.runs
            echo(f"{dropped.project_id}: {dropped.runs:,} runs of before {dropped.before:%Y-%m-%d}")
        return runs

    done = "Archived" if load_settings().archive_url else "Dropped"
    echo(f"{done} {with_database(work):,} runs.")

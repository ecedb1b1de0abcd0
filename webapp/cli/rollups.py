"""`runtally rollups`: verify, rebuild."""

import sys

import click

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.rollup import ALL_PROJECTS, RollupScope
from runtally.settings import Settings
from runtally.usage.upkeep.repair_queries import rebuild_sums
from runtally.usage.upkeep.verify_queries import Difference, verify_sums
from webapp.cli.opening import with_database
from webapp.cli.output import Progress, echo


@click.group(epilog="Example: runtally rollups verify")
def rollups() -> None:
    """The sums that pages and metrics are read from: prove that they are those of the runs, and repair them."""


@rollups.command(epilog="Example: runtally rollups verify")
def verify() -> None:
    """Count all runs again, and compare with the rollups. Ingest may go on meanwhile.

    Exits with 1 at differences, and shows the first of each project.
    """

    async def work(_settings: Settings, database: Database) -> int:
        with Progress("Comparing") as progress:
            found = [one async for one in verify_sums(database, system_clock(), progress.show)]
        different = [(scope, difference) for scope, difference in found if difference]
        for scope, difference in different:
            echo(line_of(scope, difference))
        projects = sum(scope != ALL_PROJECTS for scope, _ in found)
        echo(f"{projects:,} projects compared; {len(different) or 'none'} of the sums differ from their runs.")
        return len(different)

    if with_database(work):
        echo("`runtally rollups rebuild` repairs them.")
        sys.exit(1)


@rollups.command(epilog="Example: runtally rollups rebuild")
def rebuild() -> None:
    """Make the rollups what they should be, while ingest and pages go on. May be run again at any time."""

    async def work(_settings: Settings, database: Database) -> tuple[int, int]:
        with Progress("Counting") as progress:
            counted = [one async for one in rebuild_sums(database, system_clock(), progress.show)]
        for scope, changed in counted:
            if changed:
                echo(f"{scope}: {changed:,} rows changed")
        return sum(scope != ALL_PROJECTS for scope, _ in counted), sum(changed for _, changed in counted)

    projects, rows = with_database(work)
    echo(f"{projects:,} projects counted; {rows:,} rows changed.")


def line_of(scope: RollupScope, difference: Difference) -> str:
    """Return a line on the first difference, and on how far off the rollups are."""
    verb = "lack" if difference.runs >= 0 else "have too many:"
    return (
        f"{scope}: {difference.differing:,} sums differ, first those of {difference.bucket:%Y-%m-%d %H:%M} "
        f"({difference.grain} minutes, {difference.name}), which {verb} {abs(difference.runs):,} runs and {difference.cost_usd} USD"
    )

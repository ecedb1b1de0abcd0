"""`runtally archive`: list, verify, forget, stop."""

import sys
from collections.abc import Iterator

import click

from runtally.archive import edit
from runtally.archive.archive import Archive
from runtally.archive.edit import Verification, verify_files
from runtally.archive.queries import KeptFile, select_files
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import SettingsError
from runtally.money import plain
from runtally.settings import Settings
from webapp.cli.filters import ID
from webapp.cli.opening import in_session, with_database
from webapp.cli.output import Progress, attributes, echo, echo_json, json_option, record


@click.group(epilog="Example: runtally archive verify")
def archive() -> None:
    """Runs that were moved out of the database into the Parquet files of ARCHIVE_URL."""


@archive.command("list", epilog="Example: runtally archive list support-agent")
@click.argument("project_id", type=ID, required=False)
@json_option
def list_files(project_id: str | None, *, as_json: bool) -> None:
    """List the files of the archive, or those of PROJECT_ID: what the manifest says, without reading them."""

    async def work(_settings: Settings, database: Database) -> list[KeptFile]:
        async with database.connection() as connection:
            return await select_files(connection, project_id)

    files = with_database(work)
    if as_json:
        echo_json(
            record(
                **attributes(file, "project_id", "path", "first_at", "last_at"),
                runs=file.sums.runs,
                cost_usd=file.sums.cost_usd,
                size_bytes=file.size_bytes,
                sha256=file.sha256.hex(),
            )
            for file in files
        )
        return
    for file in files:
        span = f"{file.first_at:%Y-%m-%d} to {file.last_at:%Y-%m-%d}"
        echo(
            f"{file.path}  {span}  {file.sums.runs:,} runs  {plain(file.sums.cost_usd)} USD  {file.size_bytes:,} bytes"
        )
    runs, size = sum(file.sums.runs for file in files), sum(file.size_bytes for file in files)
    echo(f"{len(files):,} files, {runs:,} runs, {size:,} bytes.")


@archive.command(epilog="Example: runtally archive verify")
def verify() -> None:
    """Read every file of the archive, and compare it with the manifest: size, SHA-256, number of runs and sums.

    Exits with 1 if one is missing or was changed, and names each. Ingest may go on meanwhile.
    """

    async def work(settings: Settings, database: Database) -> Verification:
        with Progress("Reading") as progress:
            return await verify_files(_opened(settings, database), progress.show)

    found = with_database(work)
    for line in lines_of(found):
        echo(line)
    if found.damaged:
        sys.exit(1)


@archive.command()
@click.argument("path")
def forget(path: str) -> None:
    """Give up the file at PATH, as `verify` names it: its runs are lost, its sums stay on pages.

    For a file that cannot be brought back from a copy. What is left of it is deleted.

    \b
    Example: runtally archive forget runs/project=support-agent/month=2026-03/01a209d1-e894-73df-a005-08ee128e30cf.parquet
    """

    async def work(settings: Settings, database: Database) -> int:
        archive = _opened(settings, database)
        await archive.open()
        async with database.session() as session:
            runs = await edit.forget(session, OPERATOR, path)
        await archive.remove_left_over()
        return runs

    echo(f"Forgot {path} and its {with_database(work):,} runs.")


@archive.command(epilog="Example: runtally archive stop")
def stop() -> None:
    """Drop runs without archiving them from now on, in processes without ARCHIVE_URL. The files stay as they are.

    A process with ARCHIVE_URL begins again.
    """
    is_stopped = in_session(lambda session: edit.stop(session, OPERATOR, system_clock()))
    echo("Archiving is stopped." if is_stopped else "Nothing is archived; there is nothing to stop.")


def lines_of(verification: Verification) -> Iterator[str]:
    """The verdict, and each file that is damaged or that nobody knows."""
    yield from verification.damaged
    for path in verification.strays:
        yield f"{path} is not listed: it may be of a database before a restore, and counts twice for who reads the folder."
    yield f"{verification.files:,} files with {verification.runs:,} runs are as they were written; {len(verification.damaged):,} are damaged."


def _opened(settings: Settings, database: Database) -> Archive:
    """Raises `SettingsError`."""
    found = Archive.of(settings, database, system_clock)
    if found is None:
        raise SettingsError("Set ARCHIVE_URL to the folder or bucket of the archive.")
    return found

"""`runtally retention`: list, set, drop."""

import asyncio

import click

from runtally.access import projects as registry
from runtally.archive.archive import Archive
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.fields import parse_whole
from runtally.models.project import KEPT_FOR_EVER
from runtally.retention import RULE_SPREAD_SECONDS, Dropper, kept_days
from runtally.settings import Settings, load_settings
from webapp.cli.filters import ID
from webapp.cli.opening import in_session, with_database
from webapp.cli.output import echo_json, json_option, record

_WORDS = {"forever": KEPT_FOR_EVER, "default": None}


def _days(_context: click.Context, _parameter: click.Parameter, text: str) -> int | None:
    if text in _WORDS:
        return _WORDS[text]
    days = parse_whole(text)
    if days is None:
        raise click.BadParameter("give a number of days, forever or default.")
    return days


@click.group()
def retention() -> None:
    """Manage how long projects keep their live runs. Sums and reported runs are always kept.

    \b
    Example: runtally retention set support-agent 90
    """


@retention.command("list")
@json_option
def list_projects(*, as_json: bool) -> None:
    """List all projects: how long they keep runs, and since when they have them if older ones were dropped.

    \b
    Example: runtally retention list
    """
    kept_by_default = load_settings().retention_days
    listed = [(each, kept_days(each.retention_days, kept_by_default)) for each in in_session(registry.list_all)]
    if as_json:
        echo_json(
            record(
                project_id=project.id,
                days=days,
                is_own=project.retention_days is not None,
                dropped_before=project.dropped_before,
            )
            for project, days in listed
        )
        return
    for project, days in listed:
        kept = f"{days:,} days" if days else "for ever"
        source = "" if project.retention_days is not None else "  by RETENTION_DAYS"
        since = f"  runs since {project.dropped_before:%Y-%m-%d}" if project.dropped_before else ""
        click.echo(f"{project.id:32}  {kept:10}{since}{source}")


@retention.command("set")
@click.argument("project_id", type=ID)
@click.argument("days", callback=_days)
def set_days(project_id: str, days: int | None) -> None:
    """Keep the runs of PROJECT_ID for DAYS, `forever`, or as long as RETENTION_DAYS says: `default`.

    The service deletes older runs within minutes. This can't be undone.

    \b
    Example: runtally retention set support-agent 90
    """
    project = in_session(lambda session: registry.retain(session, OPERATOR, project_id, days))
    kept = kept_days(project.retention_days, load_settings().retention_days)
    click.echo(f"{project_id} keeps its runs {f'{kept:,} days' if kept else 'for ever'}.")


@retention.command()
def drop() -> None:
    """Drop what is too old now, as the service does every few minutes: with ARCHIVE_URL into the archive. May be run again.

    \b
    Example: runtally retention drop
    """

    async def work(settings: Settings, database: Database) -> int:
        click.echo(
            f"Waiting {RULE_SPREAD_SECONDS:.0f} s for every process to hear of it, if there is anything new to drop."
        )
        archive = Archive.of(settings, database, system_clock)
        dropper, runs = Dropper(database, settings.retention_days, system_clock, archive), 0
        async for dropped in dropper.run_pass(asyncio.Event()):
            runs += dropped.runs
            click.echo(f"{dropped.project_id}: {dropped.runs:,} runs of before {dropped.before:%Y-%m-%d}")
        return runs

    done = "Archived" if load_settings().archive_url else "Dropped"
    click.echo(f"{done} {with_database(work):,} runs.")

"""`runtally projects`: list, rename, hide, show, delete."""

import click

from runtally.access import projects as registry
from runtally.access.erasure import erase_project
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.settings import Settings
from webapp.cli.filters import ID
from webapp.cli.opening import in_session, places_of, with_database
from webapp.cli.output import echo, echo_if_none, echo_json, json_option, record


@click.group(epilog="Example: runtally projects list")
def projects() -> None:
    """Projects: list, rename, hide, show, delete. A project is made by the first run that names it."""


@projects.command("list", epilog="Example: runtally projects list")
@json_option
def list_projects(*, as_json: bool) -> None:
    """List all projects: id, name, since when, and whether hidden."""
    found = in_session(registry.list_all)
    if as_json:
        echo_json(record(id=p.id, name=p.name, created_at=p.created_at, hidden_at=p.archived_at) for p in found)
        return
    echo_if_none(found, "No projects yet; the first run of a project adds it.")
    for project in found:
        hidden = f"  hidden {project.archived_at:%Y-%m-%d}" if project.archived_at else ""
        echo(f"{project.id:32}  {project.name:32}  since {project.created_at:%Y-%m-%d}{hidden}")


@projects.command(epilog='Example: runtally projects rename support-agent "Support agent"')
@click.argument("project_id", type=ID)
@click.argument("name")
def rename(project_id: str, name: str) -> None:
    """Change the name that pages show; SDKs go on sending PROJECT_ID."""
    project = in_session(lambda session: registry.rename(session, OPERATOR, project_id, name))
    echo(f"{project_id} is now shown as {project.name}.")


@projects.command(epilog="Example: runtally projects hide old-bot")
@click.argument("project_id", type=ID)
def hide(project_id: str) -> None:
    """Hide a project from the overview; nothing is deleted and runs are still taken."""
    in_session(lambda session: registry.hide(session, OPERATOR, project_id, system_clock()))
    echo(f"{project_id} is hidden; `runtally projects show` shows it again.")


@projects.command("show", epilog="Example: runtally projects show old-bot")
@click.argument("project_id", type=ID)
def show_again(project_id: str) -> None:
    """Show a hidden project again."""
    in_session(lambda session: registry.show_again(session, OPERATOR, project_id))
    echo(f"{project_id} is shown again.")


@projects.command(epilog="Example: runtally projects delete old-bot")
@click.argument("project_id", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
def delete(project_id: str, yes: bool) -> None:  # noqa: FBT001  # Click passes flags by name.
    """Delete a project with all its runs and keys, for good; asks for the id to be typed again.

    What the reporting table has of it is deleted too, here or in REPORTING_DATABASE_URL, and its files in the archive of
    ARCHIVE_URL; what a receiver at SERVICE_SYNC_URL has is not.
    """
    if not yes and click.prompt("This deletes its runs and keys for good. Type the project's id") != project_id:
        raise click.ClickException("The id does not match; nothing was deleted.")

    async def work(settings: Settings, database: Database) -> int:
        async with places_of(settings, database) as places:
            return await erase_project(places, OPERATOR, project_id)

    echo(f"Deleted {project_id} and its {with_database(work):,} runs.")

"""Projects: list, rename, hide, delete."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import union
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, delete, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access.erasure_queries import erase_archived, erase_runs
from runtally.audit import Actor, Change, record
from runtally.errors import NO_PROJECT, InvalidName, InvalidRetention, NotFound
from runtally.fields import is_project_id
from runtally.models.alert import Alert, AlertDelivery, AlertRule, AlertTarget
from runtally.models.budget import Budget
from runtally.models.dimension import TrackedKey
from runtally.models.experiment import Experiment
from runtally.models.otlp import OtlpClient
from runtally.models.price import PriceEntry, ProjectDiscount
from runtally.models.project import (
    KEPT_FOR_EVER,
    MAX_RETENTION_DAYS,
    MIN_RETENTION_DAYS,
    ApiKey,
    Colour,
    NameRule,
    Note,
    Project,
    SavedView,
    SharedLink,
)
from runtally.models.team import TeamProject
from runtally.models.user import GroupRole, Invitation, Membership
from runtally.usage.deleted_queries import COSTS, DELETED, select_months

MAX_NAME = 128
# Tables that belong to one project, besides its runs: in its cell, and in control.
_OWN = (
    SavedView,
    Note,
    TrackedKey,
    Experiment,
    Budget,
    NameRule,
    AlertRule,
    AlertDelivery,
    Alert,
    AlertTarget,
    OtlpClient,
)
# Invitations and groups before roles: who gets one by them at this moment is waited for.
_OWN_IN_CONTROL = (SharedLink, ApiKey, PriceEntry, ProjectDiscount, Invitation, GroupRole, Membership, TeamProject)


async def list_all(session: AsyncSession) -> Sequence[Project]:
    """List all projects by name, hidden ones included."""
    return (await session.exec(select(Project).order_by(Project.name, Project.id))).all()


async def find_by_id(session: AsyncSession, project_id: str) -> Project | None:
    return await session.get(Project, project_id)


async def get(session: AsyncSession, project_id: str, *, is_locked: bool = False) -> Project:
    """Return the project with this id; one that is locked nobody else changes until the transaction ends. Raises `NotFound`."""
    project = await session.get(Project, project_id, with_for_update=is_locked or None)
    if project is None:
        raise NotFound(NO_PROJECT)
    return project


async def create(session: AsyncSession, by: Actor, project_id: str, now: datetime) -> None:
    """Make a project, as its first run would; one that is there stays as it is. Raises `InvalidName`."""
    if not is_project_id(project_id):
        raise InvalidName.at("projectId", "Give the project an id of 1 to 128 characters that is not blank.")
    made = insert(Project).values(id=project_id, name=project_id, created_at=now).on_conflict_do_nothing()
    if (await session.exec(made)).rowcount:
        record(session, by, Change("project.created", project_id, project_id))


async def rename(session: AsyncSession, by: Actor, project_id: str, name: str) -> Project:
    """Change the name that pages show; the id stays what SDKs send. Raises `InvalidName` and `NotFound`."""
    name = name.strip()
    if not name or len(name) > MAX_NAME:
        raise InvalidName(f"Give a name of 1 to {MAX_NAME} characters.")
    project = await get(session, project_id, is_locked=True)
    if name != project.name:
        change = Change("project.renamed", project_id, project_id, {"name": project.name}, {"name": name})
        record(session, by, change)
    project.name = name
    session.add(project)
    return project


async def hide(session: AsyncSession, by: Actor, project_id: str, now: datetime) -> Project:
    """Hide a project from the overview; its runs stay, and new ones are still taken."""
    project = await get(session, project_id, is_locked=True)
    if project.archived_at is None:
        record(session, by, Change("project.hidden", project_id, project_id))
    project.archived_at = project.archived_at or now
    session.add(project)
    return project


async def show_again(session: AsyncSession, by: Actor, project_id: str) -> Project:
    project = await get(session, project_id, is_locked=True)
    if project.archived_at is not None:
        record(session, by, Change("project.shown", project_id, project_id))
    project.archived_at = None
    session.add(project)
    return project


async def retain(session: AsyncSession, by: Actor, project_id: str, days: int | None) -> Project:
    """Keep live runs for this number of days, 0 for ever, or with None as long as the installation says.

    Raises `InvalidRetention` and `NotFound`.
    """
    if days not in {None, KEPT_FOR_EVER} and not MIN_RETENTION_DAYS <= days <= MAX_RETENTION_DAYS:
        raise InvalidRetention(f"Keep runs {MIN_RETENTION_DAYS} to {MAX_RETENTION_DAYS} days, or for ever.")
    project = await get(session, project_id, is_locked=True)
    if days != project.retention_days:
        before, after = {"days": project.retention_days}, {"days": days}
        record(session, by, Change("project.retention_changed", project_id, project_id, before, after))
    project.retention_days = days
    session.add(project)
    return project


async def erase(session: AsyncSession, by: Actor, project_id: str) -> int:
    """Delete a project with all that its cell has of it, and answer how many runs that were. There is no way back."""
    project = await get(session, project_id)
    costs = await select_months(session, project_id)
    # Files after runs: those that are being written while the runs go are listed by then.
    runs = await erase_runs(session, project_id) + await erase_archived(session, project_id)
    for table in _OWN:
        await session.exec(delete(table).where(col(table.project_id) == project_id))
    await session.delete(project)
    # A transaction that gives a role in it at this moment holds it, and is waited for; `erase_in_control` then finds the role.
    await session.flush()
    before = {"name": project.name, "runs": runs, COSTS: costs}
    record(session, by, Change(DELETED, project_id, project_id, before))
    return runs


async def erase_in_control(session: AsyncSession, project_id: str) -> bool:
    """Delete what control has of a project, such as keys and roles, and return whether there was anything."""
    found = 0
    for table in _OWN_IN_CONTROL:
        found += (await session.exec(delete(table).where(col(table.project_id) == project_id))).rowcount
    # A colour does not say whose its name is, or the hash that a guess can be compared with. Those of models with a price
    # stay; other names that other projects have get new ones.
    priced = union(select(PriceEntry.provider), select(PriceEntry.model))
    await session.exec(delete(Colour).where(col(Colour.value).not_in(priced)))
    return bool(found)

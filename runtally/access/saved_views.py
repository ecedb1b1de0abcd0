"""Saved views: everybody who can read a project opens a report page as somebody saved it."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally import names
from runtally.access import projects
from runtally.access.scopes import Permission, may
from runtally.audit import Actor, ActorKind, Change, record
from runtally.errors import Forbidden, InvalidName, NotFound
from runtally.models.project import NameStorage, SavedView
from runtally.names import is_hash

MAX_NAME = 80
MAX_VIEWS = 100
"""Views of a project: more than a menu can list."""
MAX_QUERY = 2_000
"""Characters of a query string."""
_PEOPLE = {ActorKind.USER, ActorKind.DEVELOPER}


async def list_views(session: AsyncSession, project_id: str) -> Sequence[SavedView]:
    """Return a project's views by name."""
    query = select(SavedView).where(SavedView.project_id == project_id)
    return sorted((await session.exec(query)).all(), key=lambda view: view.name.casefold())


async def find_by_text(
    session: AsyncSession, text: str, project_ids: Sequence[str] | None, limit: int
) -> Sequence[SavedView]:
    """Return views with this text in their name, of these or with None of all projects."""
    query = select(SavedView).where(col(SavedView.name).icontains(text, autoescape=True))
    if project_ids is not None:
        query = query.where(col(SavedView.project_id).in_(project_ids))
    ordered = query.order_by(func.lower(SavedView.name), col(SavedView.project_id))
    return (await session.exec(ordered.limit(limit))).all()


def may_save(actor: Actor) -> bool:
    """Return whether the actor is a person with an account, and not a key or the reader of a shared link."""
    return actor.kind in _PEOPLE


def may_change(actor: Actor, view: SavedView) -> bool:
    """Return whether the actor may rename and delete the view: its author, and editors of the project."""
    return may_save(actor) and (actor.name == view.author_id or may(actor, Permission.EDIT_PROJECT, view.project_id))


async def save(  # noqa: PLR0913  # What says what the view is has its name at the call.
    session: AsyncSession,
    now: datetime,
    by: Actor,
    *,
    project_id: str,
    name: str,
    page: str,
    query: str,
    values: Iterable[tuple[str, str]],
) -> SavedView:
    """Save a view, whose query has these values of keys.

    Raises `Forbidden`, `NotFound`, and `InvalidName` for a name that cannot be used, one view too many, or a value of a
    key whose values the project does not store.
    """
    if not may_save(by):
        raise Forbidden
    # Locked, so that two people who save at once neither exceed the limit nor use a name twice.
    await projects.get(session, project_id, is_locked=True)
    others = await list_views(session, project_id)
    name = _free_name(name, others)
    if len(others) >= MAX_VIEWS:
        raise InvalidName(f"A project has at most {MAX_VIEWS} views. Delete one that is not needed.")
    await _demand_stored(session, project_id, values)
    view = SavedView(
        id=uuid.uuid4(),
        project_id=project_id,
        name=name,
        page=page,
        query=query,
        created_at=now,
        created_by=by.label or by.name,
        author_id=by.name,
    )
    session.add(view)
    record(session, by, Change("saved_view.created", name, project_id, after={"page": page}))
    return view


async def rename(session: AsyncSession, by: Actor, project_id: str, view_id: UUID, name: str) -> SavedView:
    """Rename a view. Raises `Forbidden`, `NotFound`, and `InvalidName` for a name that cannot be used."""
    await projects.get(session, project_id, is_locked=True)
    view = await _get(session, by, project_id, view_id)
    others = [view for view in await list_views(session, project_id) if view.id != view_id]
    before, view.name = view.name, _free_name(name, others)
    if view.name != before:
        change = Change("saved_view.renamed", before, project_id, before={"name": before}, after={"name": view.name})
        record(session, by, change)
    return view


async def remove(session: AsyncSession, by: Actor, project_id: str, view_id: UUID) -> SavedView:
    """Delete a view. Raises `Forbidden` and `NotFound`."""
    view = await _get(session, by, project_id, view_id)
    # The query may name people, and the log is kept for ever.
    record(session, by, Change("saved_view.removed", view.name, project_id, before={"page": view.page}))
    await session.delete(view)
    return view


async def _get(session: AsyncSession, by: Actor, project_id: str, view_id: UUID) -> SavedView:
    view = await session.get(SavedView, view_id, with_for_update=True)
    if view is None or view.project_id != project_id:
        raise NotFound("This view was deleted already.")
    if not may_change(by, view):
        raise Forbidden("Only the person who saved this view, and members of the project, can change it.")
    return view


async def _demand_stored(session: AsyncSession, project_id: str, values: Iterable[tuple[str, str]]) -> None:
    """Raise `InvalidName` for a value that the project hashes or drops, unless it is such a hash."""
    rules = await names.list_rules(session, project_id)
    hidden = {rule.key for rule in rules if rule.storage != NameStorage.PLAIN}
    found = next((key for key, value in values if key in hidden and not is_hash(key, value)), None)
    if found is not None:
        raise InvalidName(
            f"This project does not store values of \u201c{found}\u201d as they were sent, so a view cannot keep one. "
            f"Remove the filter on \u201c{found}\u201d first, or filter by its hash."
        )


def _free_name(name: str, others: Sequence[SavedView]) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidName(f"Give the view a name of 1 to {MAX_NAME} characters.")
    if any(one.name.casefold() == name.casefold() for one in others):
        raise InvalidName("Another view of this project has this name. Choose another one.")
    return name

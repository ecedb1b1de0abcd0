"""Create, rotate and revoke a project's keys. The settings page lists them."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import keys
from runtally.access.scopes import Scope, parse_scopes
from runtally.errors import InvalidKey, InvalidName, InvalidScope
from webapp.addresses import server_url
from webapp.form import sent_form
from webapp.pages.project.paths import PATH
from webapp.pages.project.settings import (
    EXPIRIES,
    OVERLAPS,
    ShownKey,
    back_to_settings,
    offered_permissions,
    settings_page,
    shown_key,
)
from webapp.rendering import render
from webapp.security import project_editor

blueprint = Blueprint("project_keys", __name__)


@blueprint.post(f"{PATH}/keys")
@project_editor
async def create(project_id: str) -> ResponseReturnValue:
    """Create a key and show it, this once."""
    form = await sent_form("key")
    async with services().sessions_of(project_id) as (session, cell):
        page = await settings_page(session, cell, project_id)
        try:
            scopes = _scopes(form.chosen("scopes"))
        except InvalidScope as error:
            return await render(replace(page, key_form=form.refused(error, "scopes")), 422)
        try:
            issued = keys.issue(
                session,
                services().clock(),
                actor(),
                project_id=project_id,
                scopes=scopes,
                name=form.value("name"),
                lifetime=_chosen(form.value("expires"), EXPIRIES, timedelta(days=1)),
            )
        except InvalidName as error:
            return await render(replace(page, key_form=form.refused(error, "name")), 422)
    return await _shown(project_id, shown_key(issued, server_url()))


@blueprint.post(f"{PATH}/keys/<uuid:key_id>/rotate")
@project_editor
async def rotate(project_id: str, key_id: UUID) -> ResponseReturnValue:
    """Make a successor and show it, this once; the old key works until the overlap is over."""
    form = await sent_form()
    overlap = _chosen(form.value("overlap"), OVERLAPS, timedelta(hours=1)) or timedelta(0)
    try:
        async with services().control.database.session() as session:
            key = await keys.get(session, project_id, key_id, is_locked=True)
            issued = keys.rotate(session, services().clock(), actor(), key, overlap)
    except InvalidKey as error:
        return back_to_settings(project_id, error.message)
    return await _shown(project_id, shown_key(issued, server_url(), key))


@blueprint.post(f"{PATH}/keys/<uuid:key_id>/revoke")
@project_editor
async def revoke(project_id: str, key_id: UUID) -> ResponseReturnValue:
    """Refuse the key from now on."""
    async with services().control.database.session() as session:
        key = await keys.get(session, project_id, key_id, is_locked=True)
        keys.revoke(session, services().clock(), actor(), key)
    return back_to_settings(project_id, f"{key.prefix} is revoked; requests with it are refused.")


async def _shown(project_id: str, new: ShownKey) -> Response:
    """The settings with the new key: no redirect, because the key must not be kept anywhere on the way."""
    async with services().sessions_of(project_id) as (session, cell):
        page = await settings_page(session, cell, project_id)
    response = await render(replace(page, new=new))
    response.headers["Cache-Control"] = "no-store"
    return response


def _scopes(names: tuple[str, ...]) -> tuple[Scope, ...]:
    scopes = parse_scopes(names)
    if not scopes or not {scope for scope, _, _ in offered_permissions()}.issuperset(scopes):
        raise InvalidScope("Choose at least one of these.")
    return scopes


def _chosen(sent: str, choices: tuple[tuple[str, str], ...], unit: timedelta) -> timedelta | None:
    """Parse one of the offered durations, the first one by default; None for no end."""
    number = sent if sent in dict(choices) else choices[0][0]
    return int(number) * unit if number else None

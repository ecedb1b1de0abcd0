"""How a project stores people's names: its rules, and forms to set and remove one."""

from contextlib import suppress
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally import names
from runtally.access import projects
from runtally.errors import InvalidNameRule, StoreUnavailable
from runtally.models.project import NameStorage
from runtally.usage.dimensions import canonical_key
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor

SECTION = "project_names.show"
STORAGES = (
    (NameStorage.HASHED.value, "As a hash"),
    (NameStorage.DROPPED.value, "Not at all"),
    (NameStorage.PLAIN.value, "As sent, hidden from people who may not read runs"),
)
SAID = {
    NameStorage.HASHED.value: " Budgets count a name and its hash as one. A filter by a name finds only runs from before; later ones "
    "have the hash.",
    NameStorage.DROPPED.value: " Budgets by these values count no new runs, and filters find only runs from before.",
}
"""What happens to budgets and filters by the values of a key."""
FORM = Form("names", {"key": ("user",)})

blueprint = Blueprint("project_names", __name__)


class NamesPage(SettingsPage, frozen=True):
    """The keys whose values a project stores in a form of its own."""

    fragment: ClassVar[str] = "project/settings/names.html"

    rows: tuple[tuple[str, str], ...]
    """Key, and how its values are stored."""
    form: Form
    storages: tuple[tuple[str, str], ...] = STORAGES


@blueprint.get(f"{PATH}/names")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's rules for people's names."""
    async with services().cells.of(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/names")
@project_editor
async def set_rule(project_id: str) -> ResponseReturnValue:
    """Store the values of a key in another form from now on."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await projects.get(session, project_id, is_locked=True)
        page = await _page(session, project_id)
        if conflict := form.conflict_with(_stored(page, form), storage=dict(STORAGES)):
            return await render(replace(page, form=conflict), 422)
        now, can_hash = services().clock(), services().names.can_hash
        try:
            await names.set_rule(
                session, actor(), project_id, form.value("key"), form.value("storage"), now, can_hash=can_hash
            )
        except InvalidNameRule as error:
            return await render(replace(page, form=form.refused(error, "key")), 422)
    await _apply(project_id)
    return back_to(
        SECTION, project_id, f"Saved. It applies to new runs within seconds.{SAID.get(form.value('storage'), '')}"
    )


@blueprint.post(f"{PATH}/names/remove")
@project_editor
async def remove_rule(project_id: str) -> ResponseReturnValue:
    """Remove a key's rule, so that its values are stored as they are sent."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await names.remove_rule(session, actor(), project_id, form.value("key"))
    await _apply(project_id)
    return back_to(SECTION, project_id, "Removed. Values are stored as they are sent.")


async def _apply(project_id: str) -> None:
    """Read the rules at once. They are committed: if they cannot be read now, the next pass of the job reads them."""
    with suppress(StoreUnavailable):
        await services().cells.of(project_id).names.refresh()


async def _page(session: AsyncSession, project_id: str) -> NamesPage:
    """Return the page. Raises `NotFound`."""
    words = dict(STORAGES)
    rules = await names.list_rules(session, project_id)
    project = await projects.get(session, project_id)
    rows = tuple((rule.key, words[rule.storage]) for rule in rules)
    return NamesPage(project, SECTION, rows, FORM.at_version(rows))


def _stored(page: NamesPage, sent: Form) -> Form:
    """Return the form of the key that one names, whose version is that of the list above it."""
    words = dict(page.rows).get(canonical_key(sent.value("key")))
    values = {"storage": next(storage for storage, one in STORAGES if one == words)} if words else {}
    return Form.showing(FORM.id, values, of=page.rows)

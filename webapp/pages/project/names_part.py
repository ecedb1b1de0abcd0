"""The section of a project's settings about people's names."""

from dataclasses import dataclass

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.name_rule import NameStorage
from runtally.names import edit
from webapp.form import Form

STORAGES = (
    (NameStorage.HASHED.value, "As a hash"),
    (NameStorage.DROPPED.value, "Not at all"),
    (NameStorage.PLAIN.value, "As sent, hidden from people who may not read runs"),
)
FORM = Form("names", {"key": ("user",)})


@dataclass(frozen=True, slots=True)
class NamesPart:
    """The keys whose values a project stores in a form of its own."""

    rows: tuple[tuple[str, str], ...]
    """Key, and how its values are stored."""
    form: Form = FORM
    storages: tuple[tuple[str, str], ...] = STORAGES


async def names_part(session: AsyncSession, project_id: str) -> NamesPart:
    names = dict(STORAGES)
    return NamesPart(tuple((rule.key, names[rule.storage]) for rule in await edit.list_rules(session, project_id)))

"""Set and remove a project's rules for people's names."""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import Detail, InvalidNameRule, NotFound
from runtally.models.name_rule import NameRule, NameStorage
from runtally.models.project import Project
from runtally.usage.dimensions import MAX_KEY_LENGTH, canonical_key, is_key

MAX_RULES = 20


async def list_rules(session: AsyncSession, project_id: str) -> Sequence[NameRule]:
    """List the rules of a project, by key."""
    query = select(NameRule).where(NameRule.project_id == project_id)
    return (await session.exec(query.order_by(col(NameRule.key)))).all()


async def set_rule(  # noqa: PLR0913, PLR0917  # What is set, by whom and when.
    session: AsyncSession, by: Actor, project_id: str, key: str, storage: str, now: datetime, *, can_hash: bool
) -> None:
    """Store the values of a key in this form from now on; stored runs stay unchanged.

    Raises `InvalidNameRule` with every field that is wrong, and `NotFound`.
    """
    key, wrong = canonical_key(key), list[Detail]()
    if not is_key(key):
        wrong.append(Detail("key", f"Name a key of metadata with 1 to {MAX_KEY_LENGTH} characters, such as user."))
    if storage not in set(NameStorage):
        wrong.append(Detail("storage", "Choose hashed, dropped or plain."))
    if storage == NameStorage.HASHED and not can_hash:
        wrong.append(Detail("storage", "This server cannot hash: its operator has to set NAMES_SECRET or SECRET_KEY."))
    if wrong:
        raise InvalidNameRule(details=tuple(wrong))
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound("There is no such project; `runtally projects list` shows all.")
    rules = {rule.key: rule for rule in await list_rules(session, project_id)}
    if key not in rules and len(rules) >= MAX_RULES:
        raise InvalidNameRule(f"There are {MAX_RULES} keys already; remove one first.")
    rule = rules.get(key)
    before = {"storage": rule.storage} if rule else {}
    rule = rule or NameRule(project_id=project_id, key=key, storage=storage, updated_at=now)
    rule.storage, rule.updated_at = storage, now
    session.add(rule)
    if before.get("storage") != storage:
        record(session, by, Change("names.set", key, project_id, before, {"storage": storage}))


async def remove_rule(session: AsyncSession, by: Actor, project_id: str, key: str) -> None:
    """Remove the rule of a key, so that its values are stored as they are sent. Without a rule nothing happens."""
    rule = await session.get(NameRule, (project_id, canonical_key(key)), with_for_update=True)
    if rule is not None:
        await session.delete(rule)
        record(session, by, Change("names.removed", rule.key, project_id, {"storage": rule.storage}))

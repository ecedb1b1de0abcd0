"""Whatever changes a key, a project, a user or an experiment's rule leaves an entry, in the same transaction."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally import audit
from runtally.access import invitations, keys, projects, users
from runtally.access.invitations import Newcomer
from runtally.access.scopes import Grant, Scope
from runtally.audit import OPERATOR, Actor, ActorKind
from runtally.db.database import Database
from runtally.experiments import edit
from runtally.models.experiment import Experiment
from runtally.models.project import Project
from runtally.models.user import Role

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
BY = Actor(ActorKind.USER, "7", frozenset(), label="ada@example.com")
Act = Callable[[AsyncSession, str], Awaitable[object]]


async def key(session: AsyncSession, project_id: str) -> keys.IssuedKey:
    return keys.issue(session, NOW, BY, project_id=project_id, scopes=[Scope.METRICS_READ])


async def rotated(session: AsyncSession, project_id: str) -> None:
    keys.rotate(session, NOW, BY, (await key(session, project_id)).row, timedelta(days=1))


async def revoked(session: AsyncSession, project_id: str) -> None:
    keys.revoke(session, NOW, BY, (await key(session, project_id)).row)


async def restored(session: AsyncSession, project_id: str) -> None:
    await projects.hide(session, OPERATOR, project_id, NOW)
    await projects.show_again(session, BY, project_id)


async def experiment(session: AsyncSession, project_id: str) -> Experiment:
    session.add(Experiment(project_id=project_id, id="e", created_at=NOW))
    await session.flush()
    return await edit.get(session, project_id, "e")


async def rule_set(session: AsyncSession, project_id: str) -> None:
    found = await experiment(session, project_id)
    rule = edit.rule_of(found)
    edit.set_rule(session, BY, found, replace(rule, thresholds=replace(rule.thresholds, min_runs=7)))


async def made_private(session: AsyncSession, project_id: str) -> None:
    edit.make_private(session, BY, await experiment(session, project_id))


async def made_public(session: AsyncSession, project_id: str) -> None:
    found = await experiment(session, project_id)
    edit.make_private(session, OPERATOR, found)
    edit.make_public(session, BY, found)


async def user(session: AsyncSession, project_id: str, role: Role = Role.VIEWER) -> users.Account:
    grant = Grant(role, None if role is Role.ADMIN else project_id)
    token = await invitations.invite(session, session, NOW, BY, f"{role}@{project_id}.example", grant)
    invitation = await invitations.opened(session, NOW, token)
    joined = await invitations.accept(session, NOW, invitation, Newcomer("", "Bob", "hash-of-a-password"))
    return await users.get(session, joined.id)


async def role_set(session: AsyncSession, project_id: str) -> None:
    await users.set_role(session, session, BY, await user(session, project_id), Grant(Role.MEMBER, project_id))


async def role_removed(session: AsyncSession, project_id: str) -> None:
    await users.remove_role(session, BY, await user(session, project_id), project_id)


async def disabled(session: AsyncSession, project_id: str) -> None:
    await users.disable(session, BY, (await user(session, project_id)).user, NOW)


async def enabled(session: AsyncSession, project_id: str) -> None:
    found = (await user(session, project_id)).user
    await users.disable(session, OPERATOR, found, NOW)
    users.enable(session, BY, found)


async def password_set(session: AsyncSession, project_id: str) -> None:
    await users.set_password(session, BY, (await user(session, project_id)).user, "hash-of-a-password")


async def reset_link_made(session: AsyncSession, project_id: str) -> str:
    return await invitations.new_password(session, NOW, BY, (await user(session, project_id)).user)


ACTS: dict[str, Act] = {
    "key.created": key,
    "key.rotated": rotated,
    "key.revoked": revoked,
    "project.created": lambda session, project_id: projects.create(session, BY, f"{project_id}-new", NOW),
    "experiment.created": lambda session, project_id: edit.create(session, BY, project_id, "made", NOW),
    "project.renamed": lambda session, project_id: projects.rename(session, BY, project_id, "New"),
    "project.hidden": lambda session, project_id: projects.hide(session, BY, project_id, NOW),
    "project.shown": restored,
    "project.deleted": lambda session, project_id: projects.erase(session, BY, project_id),
    "experiment.rule_set": rule_set,
    "experiment.made_private": made_private,
    "experiment.made_public": made_public,
    "user.role_set": role_set,
    "user.disabled": disabled,
    "user.enabled": enabled,
    "user.password_set": password_set,
    "user.reset_link_made": reset_link_made,
}


@pytest.mark.parametrize("action", ACTS)
async def test_a_change_is_recorded_with_its_actor_and_without_a_secret(
    database: Database, project_id: str, action: str
) -> None:
    async with database.session() as session:
        session.add(Project(id=project_id, name="Old", created_at=NOW))
        await session.flush()

        told = await ACTS[action](session, project_id)
        await session.flush()
        entry = (await audit.list_entries(session, limit=1))[0]

    assert (entry.action, entry.actor_kind, entry.actor_label) == (action, "user", "ada@example.com")
    secrets = [told if isinstance(told, str) else getattr(told, "secret", "hash-of-a-password"), "hash-of-a-password"]
    assert not [secret for secret in secrets if secret in str(entry)]


async def test_an_entry_holds_what_changed_and_nothing_else(database: Database, project_id: str) -> None:
    async with database.session() as session:
        session.add(Project(id=project_id, name=project_id, created_at=NOW))
        await session.flush()
        await rule_set(session, project_id)
        await session.flush()
        entry = (await audit.list_entries(session, project_id=project_id))[0]

    assert (entry.before, entry.after) == ({"min_runs": 1}, {"min_runs": 7})


async def test_a_change_that_fails_is_not_recorded(database: Database, project_id: str) -> None:
    async def rename_and_fail() -> None:
        async with database.session() as session:
            session.add(Project(id=project_id, name=project_id, created_at=NOW))
            await session.flush()
            await projects.rename(session, BY, project_id, "New")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rename_and_fail()

    async with database.session() as session:
        assert await audit.list_entries(session, project_id=project_id) == []

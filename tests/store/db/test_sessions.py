"""A change is decided by what is stored once its lock is held, whatever the page read before it waited."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from runtally import names
from runtally.access import keys, projects
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.budgets import edit as budgets
from runtally.db.database import Database
from runtally.errors import InvalidKey
from runtally.models.audit import AuditEntry
from runtally.models.budget import Budget
from runtally.models.project import NameRule, Project

NOW = datetime(2026, 11, 3, 10, 20, tzinfo=UTC)
ACME = "acme"


@pytest.fixture
async def acme(own: Database) -> Database:
    async with own.session() as session:
        session.add(Project(id=ACME, name="Acme", created_at=NOW))
    return own


async def last_before(database: Database) -> object:
    """What the last entry of the audit log says was there before."""
    async with database.session() as session:
        return list(await session.exec(select(AuditEntry).order_by(AuditEntry.id)))[-1].before  # type: ignore[arg-type]  # A column.


async def test_a_budget_changes_from_what_another_request_set(acme: Database) -> None:
    async with acme.session() as session:
        await budgets.set_budget(session, OPERATOR, ACME, {"amount": "400", "alerts": ""}, NOW)
    async with acme.session() as session:
        read = (await session.exec(select(Budget))).all()
        async with acme.session() as other:
            await budgets.set_budget(other, OPERATOR, ACME, {"amount": "500", "alerts": ""}, NOW)
        await budgets.set_budget(session, OPERATOR, ACME, {"amount": "400", "alerts": ""}, NOW)

    assert len(read) == 1
    async with acme.session() as session:
        assert (await session.exec(select(Budget))).one().amount_usd == 400
    assert "500" in str(await last_before(acme))


async def test_a_rule_for_names_changes_from_what_another_request_set(acme: Database) -> None:
    async with acme.session() as session:
        await names.set_rule(session, OPERATOR, ACME, "user", "dropped", NOW, can_hash=True)
    async with acme.session() as session:
        read = await names.list_rules(session, ACME)
        async with acme.session() as other:
            await names.set_rule(other, OPERATOR, ACME, "user", "plain", NOW, can_hash=True)
        await names.set_rule(session, OPERATOR, ACME, "user", "dropped", NOW, can_hash=True)

    assert len(read) == 1
    async with acme.session() as session:
        assert (await session.exec(select(NameRule))).one().storage == "dropped"
    assert await last_before(acme) == {"storage": "plain"}


async def test_retention_changes_from_what_another_request_set(acme: Database) -> None:
    async with acme.session() as session:
        read = await projects.get(session, ACME)
        async with acme.session() as other:
            await projects.retain(other, OPERATOR, ACME, 90)
        project = await projects.retain(session, OPERATOR, ACME, None)

    assert project is read
    async with acme.session() as session:
        assert (await session.exec(select(Project))).one().retention_days is None
    assert await last_before(acme) == {"days": 90}


async def test_a_key_that_another_request_revoked_is_not_rotated(acme: Database) -> None:
    async with acme.session() as session:
        issued = keys.issue(session, NOW, OPERATOR, project_id=ACME, scopes=[Scope.METRICS_READ])
    async with acme.session() as session:
        read = await keys.list_all(session, ACME)
        async with acme.session() as other:
            keys.revoke(other, NOW, OPERATOR, await keys.get(other, ACME, issued.row.id))
        key = await keys.get(session, ACME, issued.row.id, is_locked=True)
        with pytest.raises(InvalidKey):
            keys.rotate(session, NOW, OPERATOR, key, timedelta(days=1))

    assert len(read) == 1

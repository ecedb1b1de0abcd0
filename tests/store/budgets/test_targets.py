"""Who may be told of alerts, and what the audit log says of it."""

import json

import pytest

from runtally.audit import OPERATOR
from runtally.budgets import targets
from runtally.budgets.targets import Rules, Wanted
from runtally.db.database import Database
from runtally.errors import InvalidAlertTarget, InvalidUser
from runtally.models.alert import TargetKind
from tests.relays import SteppedClock
from tests.store.budgets.deliveries import RULES, add


@pytest.mark.parametrize(
    ("kind", "address", "rules"),
    [
        (TargetKind.WEBHOOK, "ftp://example.com", RULES),
        (TargetKind.WEBHOOK, "http://127.0.0.1:1/", Rules(has_mail=True, allow_private=False)),
        (TargetKind.WEBHOOK, "http://[::ffff:10.0.0.1]/", Rules(has_mail=True, allow_private=False)),
        (TargetKind.EMAIL, "not an address", RULES),
        (TargetKind.EMAIL, "ada@example.com\nBcc: b@example.com", RULES),
        (TargetKind.EMAIL, "root,ada@example.com", RULES),
        (TargetKind.EMAIL, "<ada@example.com>", RULES),
        (TargetKind.EMAIL, "ada\0@example.com", RULES),
        (TargetKind.EMAIL, "ada@example.com", Rules(has_mail=False, allow_private=False)),
    ],
)
async def test_who_cannot_be_told_is_refused(
    project: Database, clock: SteppedClock, kind: TargetKind, address: str, rules: Rules
) -> None:
    with pytest.raises((InvalidAlertTarget, InvalidUser)):
        async with project.session() as session:
            await targets.add(session, OPERATOR, "p", Wanted(kind, address, of_unusual_cost=True), rules, clock.now)


async def test_the_audit_log_has_neither_secret_nor_path_of_a_webhook(project: Database, clock: SteppedClock) -> None:
    target = await add(project, clock, TargetKind.WEBHOOK, "https://hooks.example/services/T0/secret-path")
    with pytest.raises(InvalidAlertTarget):
        await add(project, clock, TargetKind.WEBHOOK, target.address)
    async with project.session() as session:
        await targets.remove(session, OPERATOR, await targets.found(session, "p", target.id))

    async with project.connection() as connection:
        entries = [dict(row) for row in await connection.fetch("SELECT * FROM audit_entries ORDER BY id")]
        left = await connection.fetchval("SELECT count(*) FROM alert_deliveries")
    assert [entry["action"] for entry in entries] == [
        "alert_target.added",
        "alert_target.tested",
        "alert_target.removed",
    ]
    assert {entry["target"] for entry in entries} == {"https://hooks.example"}
    assert "secret-path" not in json.dumps(entries, default=str)
    assert str(target.secret) not in json.dumps(entries, default=str)
    assert left == 0

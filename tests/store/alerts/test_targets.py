"""Where alerts may go: what is refused, what a test decides, and what the audit log says of it."""

import asyncio
import json
from datetime import timedelta

import pytest

from runtally.alerts import targets
from runtally.alerts.targets import TEST, NewTarget, UnreachableTargetError
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidAlertTarget
from runtally.models.alert import AlertTarget
from tests.receiver import refuse, running_receiver
from tests.relays import SteppedClock
from tests.store.alerts.deliveries import AWAY, PROJECT, add, running_editor


async def stored(database: Database) -> list[AlertTarget]:
    async with database.session() as session:
        return list(await targets.list_targets(session, "p"))


async def entries_of(database: Database) -> list[dict[str, object]]:
    async with database.connection() as connection:
        return [dict(row) for row in await connection.fetch("SELECT * FROM audit_entries ORDER BY id")]


@pytest.mark.parametrize(
    "address",
    [
        "ftp://example.com",
        "http://127.0.0.1:1/",
        "http://[::ffff:10.0.0.1]/",
        "not an address",
        "ada@example.com\nBcc: b@example.com",
        "root,ada@example.com",
        "<ada@example.com>",
        "ada\0@example.com",
    ],
)
async def test_an_address_that_alerts_cannot_go_to_is_refused(
    project: Database, clock: SteppedClock, address: str
) -> None:
    async with running_editor(project, clock, AWAY, allow_private=False) as editor:
        with pytest.raises(InvalidAlertTarget):
            await editor.add_untested(OPERATOR, PROJECT, NewTarget(address, of_unusual_cost=True))


async def test_without_a_mail_server_an_address_of_mail_is_refused(project: Database, clock: SteppedClock) -> None:
    async with running_editor(project, clock, None) as editor:
        with pytest.raises(InvalidAlertTarget, match="This server sends no mail"):
            await editor.add_untested(OPERATOR, PROJECT, NewTarget("ada@example.com", of_unusual_cost=True))


async def test_a_target_is_stored_once_its_test_message_was_taken(project: Database, clock: SteppedClock) -> None:
    with running_receiver() as receiver:
        new = NewTarget(f"{receiver.url}/hook", of_unusual_cost=False)
        async with running_editor(project, clock) as editor:
            receiver.reply = refuse(404)
            with pytest.raises(UnreachableTargetError, match=r"^The Webhook test failed: HTTP 404\.$"):
                await editor.add_tested(OPERATOR, PROJECT, new)
            assert await stored(project) == []

            receiver.reply = lambda _document: 204
            target = await editor.add_tested(OPERATOR, PROJECT, new)

    assert [one.id for one in await stored(project)] == [target.id]
    assert receiver.documents[-1]["type"] == "alert.test"
    assert receiver.documents[-1]["text"].startswith('Test of the alerts of "P & Co of names"\nAlerts of this project')
    async with project.session() as session:
        [(delivery, alert, _)] = await targets.list_deliveries(session, "p")
    assert (delivery.delivered_at, delivery.answer, alert.kind) == (clock.now, "HTTP 204", "test")


async def test_two_requests_at_once_store_one_target(project: Database, clock: SteppedClock) -> None:
    with running_receiver() as receiver:
        new = NewTarget(receiver.url, of_unusual_cost=True)
        async with running_editor(project, clock) as editor:
            both = await asyncio.gather(
                *(editor.add_tested(OPERATOR, PROJECT, new) for _ in range(2)), return_exceptions=True
            )

    assert len(await stored(project)) == 1
    assert [type(one) for one in both if isinstance(one, Exception)] == [InvalidAlertTarget]


async def test_a_project_sends_a_few_tests_a_minute(project: Database, clock: SteppedClock) -> None:
    new = NewTarget("http://127.0.0.1:1/", of_unusual_cost=True)

    async def attempt() -> type[Exception]:
        async with running_editor(project, clock) as editor:
            with pytest.raises((UnreachableTargetError, InvalidAlertTarget)) as caught:
                await editor.add_tested(OPERATOR, PROJECT, new)
        return caught.type

    attempts = [await attempt() for _ in range(TEST.most + 1)]

    assert attempts == [UnreachableTargetError] * TEST.most + [InvalidAlertTarget]
    clock.advance(timedelta(minutes=1))
    assert await attempt() is UnreachableTargetError


async def test_the_audit_log_names_nobody_whom_alerts_are_mailed_to(project: Database, clock: SteppedClock) -> None:
    async with running_editor(project, clock, AWAY) as editor:
        target = await editor.add_untested(OPERATOR, PROJECT, NewTarget("ada@example.com", of_unusual_cost=True))
        async with project.session() as session:
            await editor.remove(session, OPERATOR, await targets.get_target(session, "p", target.id))

    assert [entry["target"] for entry in await entries_of(project)] == ["…@example.com"] * 3
    assert "ada" not in json.dumps(await entries_of(project), default=str)


async def test_the_audit_log_has_neither_secret_nor_path_of_a_webhook(project: Database, clock: SteppedClock) -> None:
    target = await add(project, clock, "https://hooks.example/services/T0/secret-path-of-a-webhook")
    with pytest.raises(InvalidAlertTarget):
        await add(project, clock, target.address)
    async with running_editor(project, clock) as editor, project.session() as session:
        await editor.remove(session, OPERATOR, await targets.get_target(session, "p", target.id))

    entries = await entries_of(project)
    async with project.connection() as connection:
        left = await connection.fetchval("SELECT count(*) FROM alert_deliveries")
    assert [entry["action"] for entry in entries] == [
        "alert_target.added",
        "alert_target.tested",
        "alert_target.removed",
    ]
    assert {entry["target"] for entry in entries} == {"https://hooks.example/…hook"}
    assert "secret-path" not in json.dumps(entries, default=str)
    assert str(target.secret) not in json.dumps(entries, default=str)
    assert left == 0

"""Each channel sends what its vendor takes, and says in plain words why it does not."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from runtally.alerts.channels.slack import HEADER_LIMIT
from runtally.alerts.message import Message, ProjectLink, trial_message
from runtally.alerts.registry import Channels, UnknownChannelError
from runtally.alerts.targets import NewTarget, UnreachableTargetError
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertKind, AlertTarget
from tests.relays import SteppedClock
from tests.store.alerts.deliveries import PROJECT, add, delivery, running_editor, running_sender
from tests.vendors import PAGERDUTY_KEY, Vendors, running_vendors

ALL = ("slack", "discord", "workflow", "connector", "pagerduty")
UNPLEASANT = ProjectLink("p", "<!channel> @everyone [free](https://evil.example) **bold** & co", None)


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    with running_vendors(monkeypatch) as running:
        yield running


def texts_of(found: object) -> list[str]:
    """List every text that a message shows, however deep."""
    if isinstance(found, dict):
        shown = {"text", "content", "description", "title", "summary"}
        own = [value for name, value in found.items() if name in shown and isinstance(value, str)]
        return [*own, *(text for value in found.values() for text in texts_of(value))]
    return [text for one in found for text in texts_of(one)] if isinstance(found, list) else []


async def send(database: Database, clock: SteppedClock, message: Message, address: str) -> AlertDelivery:
    """Store the alert with a delivery to this address, and send it."""
    target = await add(database, clock, address)
    async with database.connection() as connection:
        await connection.execute("DELETE FROM alert_deliveries")
    alert_id = uuid7()
    async with database.session() as session:
        session.add(
            Alert(
                project_id="p",
                id=alert_id,
                kind=message.kind,
                subject=message.subject,
                level=message.level,
                title=message.title,
                message=message.text,
                document=message.document,
                created_at=clock.now,
            )
        )
        session.add(AlertDelivery(project_id="p", alert_id=alert_id, target_id=target.id, due_at=clock.now))
    async with running_sender(database, clock) as sender:
        await sender.work()
    return await delivery(database)


def budget_message(title: str, text: str, at: datetime, level: int = 80) -> Message:
    document = {
        "type": "budget.threshold_reached",
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "text": title,
        "data": {"projectId": "p", "url": PROJECT.url},
    }
    return Message(AlertKind.BUDGET, "2026-11 100", level, title, text, json.dumps(document))


@pytest.mark.parametrize("vendor", ALL)
async def test_a_channel_is_stored_after_a_test_message_that_its_vendor_takes(
    project: Database, clock: SteppedClock, vendors: Vendors, vendor: str
) -> None:
    async with running_editor(project, clock) as editor:
        target = await editor.add_tested(OPERATOR, PROJECT, NewTarget(getattr(vendors, vendor), of_unusual_cost=True))

    [[first, *rest]] = vendors.taken.values()
    assert target.kind == {"workflow": "teams", "connector": "teams"}.get(vendor, vendor)
    assert target.secret is None
    assert any('Test of the alerts of "P & Co of names"' in text.replace("&amp;", "&") for text in texts_of(first))
    assert str(PROJECT.url) in json.dumps(first)
    # A test leaves no incident open.
    assert [one["event_action"] for one in rest] == (["resolve"] if vendor == "pagerduty" else [])


REMOVED = {
    "slack": "The Slack test failed: the webhook was removed or switched off in Slack; create a new one there.",
    "discord": "The Discord test failed: the webhook was deleted in Discord; create a new one there.",
    "workflow": "The Teams test failed: the workflow was deleted in Teams; create a new one there.",
    "connector": "The Teams test failed: Teams refused the message; the connector or its channel may have been "
    "removed.",
    "pagerduty": "The PagerDuty test failed: PagerDuty refused the event; check that the key is that of an "
    "Events API v2 integration.",
}


@pytest.mark.parametrize("vendor", ALL)
async def test_a_channel_whose_webhook_is_gone_is_not_stored_and_the_reason_is_plain(
    project: Database, clock: SteppedClock, vendors: Vendors, vendor: str
) -> None:
    address: str = getattr(vendors, vendor)
    vendors.removed.add(address.removeprefix("https://").partition(":")[0])
    async with running_editor(project, clock) as editor:
        with pytest.raises(UnreachableTargetError) as refused:
            await editor.add_tested(OPERATOR, PROJECT, NewTarget(address, of_unusual_cost=True))

    assert str(refused.value) == REMOVED[vendor]
    async with project.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM alert_targets") == 0


@pytest.mark.parametrize("vendor", ALL)
async def test_the_longest_alert_fits_into_each_channel(
    project: Database, clock: SteppedClock, vendors: Vendors, vendor: str
) -> None:
    message = budget_message("T" * 3000, "\n".join(["S" * 1000] * 12), clock.now)

    done = await send(project, clock, message, getattr(vendors, vendor))

    assert done.delivered_at == clock.now, done.answer


@pytest.mark.parametrize("vendor", ALL)
async def test_the_name_of_a_project_cannot_mention_people_or_link(
    project: Database, clock: SteppedClock, vendors: Vendors, vendor: str
) -> None:
    message = trial_message(UNPLEASANT, "x", clock.now)

    await send(project, clock, message, getattr(vendors, vendor))

    [[taken, *_]] = vendors.taken.values()
    marked = [text for text in texts_of(taken) if "free" in text]
    assert marked
    if vendor == "slack":
        assert not any("<!" in text or "<h" in text for text in marked if text != taken["blocks"][0]["text"]["text"])
        assert taken["blocks"][0]["text"]["type"] == "plain_text"
    elif vendor == "discord":
        assert taken["allowed_mentions"] == {"parse": []}
        assert r"\[free\]\(https\[:\]//evil\[.\]example\) \*\*bold\*\*" in taken["content"]
    elif vendor in {"workflow", "connector"}:
        # Runs of text have no Markdown; a TextBlock has.
        blocks = taken["attachments"][0]["content"]["body"]
        assert {block["type"] for block in blocks} == {"RichTextBlock"}


async def test_an_alert_of_pagerduty_has_one_key_for_all_tries_and_a_severity(
    project: Database, clock: SteppedClock, vendors: Vendors
) -> None:
    done = await send(project, clock, budget_message("All used", "All of it.", clock.now, level=100), vendors.pagerduty)

    [[event]] = vendors.taken.values()
    assert (event["routing_key"], event["dedup_key"]) == (PAGERDUTY_KEY, f"msg_{done.alert_id.hex}")
    assert event["payload"]["severity"] == "error"
    assert event["payload"]["custom_details"]["text"] == "All of it."


async def test_a_kind_that_no_channel_has_raises_and_is_given_up_alone(
    project: Database, clock: SteppedClock, vendors: Vendors
) -> None:
    async with Channels.opened(None, allow_private=True) as channels:
        with pytest.raises(UnknownChannelError):
            channels["pigeon"]
    await add(project, clock, vendors.slack)
    async with project.session() as session:
        later = AlertTarget(
            project_id="p", id=uuid7(), kind="pigeon", address="roof", of_unusual_cost=True, created_at=clock.now
        )
        session.add(later)
    async with project.connection() as connection:
        await connection.execute(
            "INSERT INTO alert_deliveries (project_id, alert_id, target_id, attempts, due_at) "
            "SELECT project_id, id, $1, 0, created_at FROM alerts",
            later.id,
        )
    async with running_sender(project, clock) as sender:
        await sender.work()

    async with project.connection() as connection:
        answers = {row["target_id"]: row["answer"] for row in await connection.fetch("SELECT * FROM alert_deliveries")}
    assert answers.pop(later.id) == "cannot be sent to this address"
    assert list(answers.values()) == ["taken by Slack"]


def test_the_title_of_a_message_to_slack_is_as_long_as_slack_allows(vendors: Vendors) -> None:
    block: dict[str, Any] = {"type": "header", "text": {"type": "plain_text", "text": "x" * (HEADER_LIMIT + 1)}}
    body = json.dumps({"text": "x", "blocks": [block]}).encode()
    path = vendors.slack.partition(str(vendors.port))[2]

    assert vendors.answer("hooks.slack.com", path, "application/json", body) == (400, "invalid_blocks")
    assert vendors.answer("hooks.slack.com", path, "application/json", b"{}") == (400, "no_text")

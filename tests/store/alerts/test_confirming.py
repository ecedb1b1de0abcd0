"""A mail address gets one question, and no alert before somebody there confirmed it."""

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import unquote

import pytest

from runtally.alerts import confirming, targets
from runtally.alerts.channels.mail import Mailer
from runtally.alerts.confirming import LIFETIME, UNCONFIRMED, ConfirmationLinks
from runtally.alerts.message import trial_message
from runtally.alerts.targets import QUESTION, NewTarget
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import InvalidAlertTarget, InvalidLink
from runtally.ids import uuid7
from runtally.models.alert import Alert, AlertDelivery, AlertTarget
from runtally.settings import SmtpTls
from runtally.telemetry import exposition
from tests.mailbox import CERTIFICATE, PASSWORD, USER, Mailbox, running_mailbox
from tests.relays import SteppedClock
from tests.store.alerts.deliveries import AWAY, LINKS, PROJECT, running_editor, running_sender

ADA = NewTarget("ada@example.com", of_unusual_cost=True)


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with running_mailbox() as running:
        yield running


def parked_alerts() -> float:
    [line] = re.findall(r"^runtally_alerts_parked_total (.*)$", exposition("", ())[0].decode(), re.MULTILINE)
    return float(line)


async def send(project: Database, clock: SteppedClock, mailbox: Mailbox) -> list[str]:
    """Send what is due, and return the subjects of all that arrived."""
    mailer = Mailer("localhost", mailbox.port, "r@example.com", SmtpTls.STARTTLS, USER, PASSWORD)
    async with running_sender(project, clock, mailer) as sender:
        await sender.work()
    return [str(mail["Subject"]) for mail in mailbox.mails]


async def asked(project: Database, clock: SteppedClock) -> AlertTarget:
    async with running_editor(project, clock, AWAY) as editor:
        return await editor.add_tested(OPERATOR, PROJECT, ADA)


async def alert(project: Database, clock: SteppedClock, target: AlertTarget) -> None:
    message = trial_message(PROJECT, str(uuid7()), clock.now)
    async with project.session() as session:
        one = Alert(
            project_id="p",
            id=uuid7(),
            kind="budget",
            subject=message.subject,
            level=80,
            title="Most of the budget is used",
            message=message.text,
            document=message.document,
            created_at=clock.now,
        )
        session.add(one)
        session.add(AlertDelivery(project_id="p", alert_id=one.id, target_id=target.id, due_at=clock.now))


def token_in(mailbox: Mailbox) -> str:
    body = mailbox.mails[0].get_content()
    return token_of(body.strip().rpartition("https://runtally.example")[2])


def token_of(url: str) -> str:
    return unquote(url.partition("/confirm-alerts?token=")[2])


async def answer(project: Database, clock: SteppedClock, token: str) -> None:
    async with project.session() as session:
        await confirming.confirm(session, await confirming.find(session, *LINKS.read(token), clock.now), clock.now)


async def states(project: Database) -> list[str]:
    async with project.session() as session:
        log = await targets.list_deliveries(session, "p")
    return [f"{alert.kind} {delivery.answer}" for delivery, alert, _ in log]


async def test_nothing_but_the_question_is_sent_before_it_is_confirmed_and_then_what_was_held_back(
    project: Database, clock: SteppedClock, mailbox: Mailbox
) -> None:
    parked = parked_alerts()
    target = await asked(project, clock)
    await alert(project, clock, target)

    question = 'Confirm that you want the alerts of "P & Co of names"'
    assert await send(project, clock, mailbox) == [question]
    assert await states(project) == [f"budget {UNCONFIRMED}", "confirmation taken by the mail server"]
    assert parked_alerts() == parked + 1

    for _ in range(2):
        await answer(project, clock, token_in(mailbox))
    clock.advance(timedelta(minutes=1))
    assert await send(project, clock, mailbox) == [question, "Most of the budget is used"]
    assert await send(project, clock, mailbox) == [question, "Most of the budget is used"]
    assert await states(project) == ["budget taken by the mail server", "confirmation taken by the mail server"]


async def test_a_link_is_signed_works_for_a_week_and_with_keys_of_before(
    project: Database, clock: SteppedClock, mailbox: Mailbox
) -> None:
    target = await asked(project, clock)
    await send(project, clock, mailbox)
    token = token_in(mailbox)
    project_id, alert_id = LINKS.read(token)
    old, other = (ConfirmationLinks(LINKS.public_url, [key]) for key in (b"old key", b"other key"))

    assert LINKS.read(token_of(old.url(project_id, alert_id))) == (project_id, alert_id)
    for wrong in ("", ".", "é", token[:-1], f"A{token}", token_of(other.url(project_id, alert_id))):
        with pytest.raises(InvalidLink):
            LINKS.read(wrong)
    with pytest.raises(InvalidLink):
        await answer(project, clock, token_of(LINKS.url("p", target.id)))
    clock.advance(LIFETIME)
    with pytest.raises(InvalidLink):
        await answer(project, clock, token)


async def test_the_question_is_asked_again_after_a_while_and_a_few_times_a_day(
    project: Database, clock: SteppedClock
) -> None:
    target = await asked(project, clock)

    async def again() -> bool:
        async with running_editor(project, clock, AWAY) as editor, project.session() as session:
            stored = await targets.get_target(session, "p", target.id)
            return await editor.queue_test(session, OPERATOR, stored, PROJECT)

    assert not await again()
    for _ in range(QUESTION.most - 1):
        clock.advance(QUESTION.pause)
        assert await again()
    clock.advance(QUESTION.pause)
    with pytest.raises(InvalidAlertTarget, match="wait until tomorrow"):
        await again()


async def test_without_what_a_link_needs_an_address_is_refused(project: Database, clock: SteppedClock) -> None:
    async with running_editor(project, clock, AWAY, links=None) as editor:
        with pytest.raises(InvalidAlertTarget, match="its operator can set PUBLIC_URL and SECRET_KEY"):
            await editor.add_untested(OPERATOR, PROJECT, ADA)

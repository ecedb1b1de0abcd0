"""Alerts by mail: encrypted, signed in, with one id for all tries."""

from datetime import timedelta

import pytest

from runtally.alerts.channels.mail import Mailer
from runtally.db.database import Database
from tests.mailbox import CERTIFICATE, PASSWORD, USER, running_mailbox
from tests.relays import SteppedClock
from tests.serving import settings_for
from tests.store.alerts.deliveries import add, delivery, mailer_of, running_sender


async def test_mail_is_encrypted_signed_in_and_has_one_id_for_all_tries(
    project: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mailbox() as mailbox:
        settings = settings_for(
            "postgresql://h/d",
            smtp_host="localhost",
            smtp_port=mailbox.port,
            smtp_from="runtally@example.com",
            smtp_user=USER,
            smtp_password=PASSWORD,
        )
        untrusted = await mailer_of(settings).send("ada@example.com", "id", "title", "text", clock.now)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        mailbox.refusal = "451 later"
        await add(project, clock, "Ada@Example.com")
        async with running_sender(project, clock, Mailer.of(settings)) as one:
            await one.work()
            assert (await delivery(project)).answer == "the mail server refused: 451"
            mailbox.refusal = None
            clock.advance(timedelta(seconds=30))
            await one.work()
        wrong = mailer_of(settings.model_copy(update={"smtp_user": "nobody"}))
        refused = await wrong.send("ada@example.com", "id", "title", "text", clock.now)

    [mail] = mailbox.mails
    done = await delivery(project)
    assert (mail["From"], mail["To"]) == ("runtally@example.com", "ada@example.com")
    assert mail["Subject"] == 'Test of the alerts of "P & Co of names"'
    assert mail["Message-ID"] == f"<msg_{done.alert_id.hex}@example.com>"
    assert "https://runtally.example/projects/p" in mail.get_content()
    assert (done.answer, done.attempts) == ("taken by the mail server", 2)
    assert refused.answer == "the mail server refused the sign-in: 535"
    assert untrusted.answer == "no secure connection to the mail server"


async def test_a_mail_server_that_is_away_or_not_set_is_reported(project: Database, clock: SteppedClock) -> None:
    settings = settings_for("postgresql://h/d", smtp_host="127.0.0.1", smtp_port=1, smtp_from="a@example.com")
    assert (
        await mailer_of(settings).send("b@example.com", "id", "t", "x", clock.now)
    ).answer == "cannot reach the mail server"
    assert Mailer.of(settings_for("postgresql://h/d", smtp_host="127.0.0.1")) is None

    await add(project, clock, "ada@example.com")
    async with running_sender(project, clock) as one:
        await one.work()

    assert str((await delivery(project)).answer).startswith("this server sends no mail")

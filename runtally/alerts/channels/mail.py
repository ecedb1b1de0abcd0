"""Mail, over the server of SMTP_HOST."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import ClassVar, Self

from runtally.access.users import parse_email
from runtally.alerts.channel import Channel, Notice, Outcome
from runtally.alerts.confirming import ConfirmationLinks
from runtally.alerts.posting import refused
from runtally.errors import InvalidUser
from runtally.models.alert import AlertKind, TargetKind
from runtally.settings import Settings, SmtpTls

_NO_LINKS = "its operator can set PUBLIC_URL and SECRET_KEY"
ANSWER_SECONDS = 15.0
# A conversation has several answers.
CONVERSATION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Mailer:
    """Sends mail over one server, from one address."""

    host: str
    port: int
    sender: str
    tls: SmtpTls
    user: str | None
    password: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return the mailer of the settings; None where SMTP_HOST or SMTP_FROM is not set."""
        if not settings.smtp_host or not settings.smtp_from:
            return None
        password = settings.smtp_password.get_secret_value() if settings.smtp_password else None
        return cls(
            settings.smtp_host, settings.smtp_port, settings.smtp_from, settings.smtp_tls, settings.smtp_user, password
        )

    async def send(self, address: str, message_id: str, title: str, text: str, now: datetime) -> Outcome:
        """Hand a mail to the server, which may still fail to deliver it to the mailbox."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = self.sender, address, title
        mail["Date"], mail["Message-ID"] = format_datetime(now), f"<{message_id}@{self.sender.partition('@')[2]}>"
        # Mailboxes do not send out-of-office replies to this.
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text)
        try:
            # A few mails a day: threads are enough, without a library.
            async with asyncio.timeout(CONVERSATION_SECONDS):
                await asyncio.to_thread(self._deliver, mail)
        except smtplib.SMTPAuthenticationError as error:
            return Outcome.failed(f"the mail server refused the sign-in: {error.smtp_code}")
        except smtplib.SMTPResponseException as error:
            return Outcome.failed(f"the mail server refused: {error.smtp_code}")
        except smtplib.SMTPRecipientsRefused as error:
            return Outcome.failed(
                f"the mail server refused the address: {min(code for code, _ in error.recipients.values())}"
            )
        except ssl.SSLError:
            return Outcome.failed("no secure connection to the mail server")
        except (smtplib.SMTPException, OSError):
            return Outcome.failed("cannot reach the mail server")
        return Outcome.taken("the mail server")

    def _deliver(self, mail: EmailMessage) -> None:
        context = ssl.create_default_context()
        with self._connected(context) as server:
            if self.tls is SmtpTls.STARTTLS:
                server.starttls(context=context)
            if self.user is not None:
                server.login(self.user, self.password or "")
            server.send_message(mail)

    def _connected(self, context: ssl.SSLContext) -> smtplib.SMTP:
        if self.tls is SmtpTls.TLS:
            return smtplib.SMTP_SSL(self.host, self.port, timeout=ANSWER_SECONDS, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=ANSWER_SECONDS)


@dataclass(frozen=True, slots=True)
class Mail(Channel):
    """E-mail to one address. Without SMTP settings no address is accepted, and nothing is sent to stored ones."""

    mailer: Mailer | None
    links: ConfirmationLinks | None
    kind: ClassVar = TargetKind.EMAIL
    label: ClassVar = "Mail"

    def read(self, text: str) -> str | None:
        if "@" not in text or "://" in text:
            return None
        try:
            address = parse_email(text)
        except InvalidUser as error:
            raise refused(error.message) from None
        if self.mailer is None:
            raise refused("This server sends no mail; its operator can set SMTP_HOST and SMTP_FROM.")
        if self.links is None:
            raise refused(f"This server cannot ask for a confirmation; {_NO_LINKS}.")
        return address

    def mask(self, address: str) -> str:
        """Return the address unmasked: an attacker cannot send alerts by knowing it."""
        return address

    async def send(self, address: str, _secret: str | None, notice: Notice, now: datetime) -> Outcome:
        if self.mailer is None:
            return Outcome.failed("this server sends no mail: SMTP_HOST and SMTP_FROM are not set")
        url = notice.url
        if notice.kind is AlertKind.CONFIRMATION:
            if self.links is None:
                return Outcome.failed(f"no link can be made: {_NO_LINKS}")
            # Made here, so that what is stored confirms nothing.
            url = self.links.url(notice.project_id, notice.alert_id)
        text = f"{notice.text}\n\n{url}" if url else notice.text
        return await self.mailer.send(address, notice.id, notice.title, text, now)

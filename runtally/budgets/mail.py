"""One alert by mail; what came of it."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Self

from runtally.budgets.webhook import Outcome
from runtally.settings import Settings, SmtpTls

ANSWER_SECONDS = 15.0
# A conversation has several answers.
CONVERSATION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Mailer:
    """A mail server, and whom mail comes from."""

    host: str
    port: int
    sender: str
    tls: SmtpTls
    user: str | None
    password: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None where SMTP_HOST or SMTP_FROM is not set."""
        if not settings.smtp_host or not settings.smtp_from:
            return None
        password = settings.smtp_password.get_secret_value() if settings.smtp_password else None
        return cls(
            settings.smtp_host, settings.smtp_port, settings.smtp_from, settings.smtp_tls, settings.smtp_user, password
        )

    async def send(self, address: str, message_id: str, title: str, text: str, now: datetime) -> Outcome:
        """Taken is what the server has taken; what becomes of it there is not heard of here."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = self.sender, address, title
        mail["Date"], mail["Message-ID"] = format_datetime(now), f"<{message_id}@{self.sender.partition('@')[2]}>"
        # Nobody's holiday answers to it.
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text)
        try:
            # A few mails a day: a thread each is less than a library.
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
        return Outcome(is_taken=True, answer="taken by the mail server")

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

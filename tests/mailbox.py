"""A mail server that keeps what it is sent, or refuses it as a test asks.

Its certificate is `localhost.pem`, made by nobody but `openssl req -x509`: who trusts it says so with SSL_CERT_FILE.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.serving import free_port

CERTIFICATE = Path(__file__).with_name("localhost.pem")
USER, PASSWORD = "runtally", "mail-password-of-the-tests"


class Mailbox:
    """What arrived; `refusal` is what is answered instead of taking mail."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refusal: str | None = None
        self.port = free_port()

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  # Its name.
        if self.refusal:
            return self.refusal
        mail = BytesParser(EmailMessage, policy=default).parsebytes(envelope.content or b"")  # type: ignore[arg-type]  # Without options it is bytes.
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@contextmanager
def running_mailbox() -> Iterator[Mailbox]:
    """It asks the sender to encrypt and to sign in."""
    mailbox = Mailbox()

    def authenticate(_server: SMTP, _session: Session, _envelope: Envelope, _how: str, auth: object) -> AuthResult:
        is_right = isinstance(auth, LoginPassword) and auth == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=mailbox.port,
        tls_context=tls,
        require_starttls=True,
        authenticator=authenticate,
        auth_required=True,
    )
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()

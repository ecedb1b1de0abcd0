"""Generic webhooks: a post signed as in Standard Webhooks (https://www.standardwebhooks.com)."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from runtally.alerts.channel import Channel, Notice, Outcome
from runtally.alerts.posting import Poster, is_address, is_public, parse_url, refused
from runtally.models.alert import TargetKind

SECRET_START = "whsec_"  # noqa: S105  # How every such secret begins.
SECRET_BYTES = 32


def new_secret() -> str:
    return SECRET_START + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: HMAC-SHA256 of id, timestamp and body, with full stops between."""
    key = base64.b64decode(secret.removeprefix(SECRET_START))
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


@dataclass(frozen=True, slots=True)
class Webhook(Channel):
    """Any URL that no other channel recognises."""

    poster: Poster
    kind: ClassVar = TargetKind.WEBHOOK
    label: ClassVar = "Webhook"

    def read(self, text: str) -> str | None:
        url = parse_url(text)
        if url is None:
            return None
        # Names are resolved each time that they are posted to; an address can be refused now.
        if is_address(url.host) and not is_public(url.host) and not self.poster.allow_private:
            raise refused("This address is of a private network or of this machine, where alerts are not posted.")
        return str(url)

    def new_secret(self) -> str | None:
        return new_secret()

    async def send(self, address: str, secret: str | None, notice: Notice, now: datetime) -> Outcome:
        body, timestamp = notice.document.encode(), int(now.timestamp())
        headers = {
            "webhook-id": notice.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(secret or "", notice.id, timestamp, body),
        }
        answer = await self.poster.post(address, body, headers)
        return Outcome(answer.is_success, f"HTTP {answer.status}")

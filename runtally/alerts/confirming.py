"""Confirm that alerts are wanted at a mail address: by a signed link, which is mailed there before anything else."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from urllib.parse import quote
from uuid import UUID

from sqlmodel import col, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.errors import InvalidLink
from runtally.models.alert import Alert, AlertDelivery, AlertKind, AlertTarget
from runtally.settings import Settings

LIFETIME = timedelta(days=7)
UNCONFIRMED = "held back: nobody confirmed this address"
"""What the log says of an alert that was not sent for it."""
EXPIRED = "It has expired, is mistyped, or its address gets no alerts any more. The project's settings send a new one."
_PURPOSE = b"runtally: confirm a mail address\0"


@dataclass(frozen=True, slots=True)
class ConfirmationLinks:
    """Makes and reads links; the first key signs, and all are accepted."""

    public_url: str
    keys: Sequence[bytes]

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return what makes links; None where PUBLIC_URL or SECRET_KEY is not set."""
        keys = [secret.get_secret_value().encode() for secret in settings.secret_key]
        return cls(settings.public_url.rstrip("/"), keys) if settings.public_url and keys else None

    def url(self, project_id: str, alert_id: UUID) -> str:
        """Return the link of the message with this id."""
        said = urlsafe_b64encode(alert_id.bytes + project_id.encode())
        token = said + b"." + _signature(self.keys[0], said)
        return f"{self.public_url}/confirm-alerts?token={quote(token.decode())}"

    def read(self, token: str) -> tuple[str, UUID]:
        """Return project and message of a link. Raises `InvalidLink`."""
        said, _, signature = token.encode(errors="replace").partition(b".")
        if not any(hmac.compare_digest(_signature(key, said), signature) for key in self.keys):
            raise InvalidLink(EXPIRED)
        signed = urlsafe_b64decode(said)
        return signed[16:].decode(), UUID(bytes=signed[:16])


def _signature(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + said, hashlib.sha256).hex().encode()


async def find(session: AsyncSession, project_id: str, alert_id: UUID, now: datetime) -> AlertTarget:
    """Return the target that the message asked, locked. Raises `InvalidLink`."""
    query = select(AlertTarget).where(
        AlertDelivery.project_id == project_id,
        AlertDelivery.alert_id == alert_id,
        Alert.project_id == project_id,
        Alert.id == AlertDelivery.alert_id,
        Alert.kind == AlertKind.CONFIRMATION,
        col(Alert.created_at) > now - LIFETIME,
        AlertTarget.project_id == project_id,
        AlertTarget.id == AlertDelivery.target_id,
    )
    target = (await session.exec(query.with_for_update(of=AlertTarget))).one_or_none()
    if target is None:
        raise InvalidLink(EXPIRED)
    return target


async def confirm(session: AsyncSession, target: AlertTarget, now: datetime) -> None:
    """Send alerts there from now on, and those of the last days that were held back; a second time changes nothing."""
    if target.confirmed_at is not None:
        return
    target.confirmed_at = now
    session.add(target)
    held = (
        update(AlertDelivery)
        .where(
            col(AlertDelivery.project_id) == target.project_id,
            col(AlertDelivery.target_id) == target.id,
            col(AlertDelivery.parked_at) > now - LIFETIME,
            col(AlertDelivery.answer) == UNCONFIRMED,
        )
        .values(parked_at=None, attempts=0, due_at=now, answer=None)
    )
    await session.exec(held)

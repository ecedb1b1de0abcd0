"""The registry of channels: find the channel of an address, and send through a channel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Self

import structlog

from runtally.alerts.channel import Channel, Notice, Outcome
from runtally.alerts.channels.discord import Discord
from runtally.alerts.channels.mail import Mail, Mailer
from runtally.alerts.channels.pagerduty import PagerDuty
from runtally.alerts.channels.slack import Slack
from runtally.alerts.channels.teams import Teams
from runtally.alerts.channels.webhook import Webhook
from runtally.alerts.confirming import ConfirmationLinks
from runtally.alerts.posting import Poster, PostError, refused
from runtally.models.alert import TargetKind

log = structlog.get_logger()


class UnknownChannelError(LookupError):
    """A target has a kind that no channel has: a newer version has stored it."""


class Channels:
    """The channels by kind; `mailer` is None where no mail server is set, `links` where none can be made."""

    def __init__(self, poster: Poster, mailer: Mailer | None, links: ConfirmationLinks | None) -> None:
        self._mailer = mailer
        self.links = links
        # Webhook is last: it takes any URL.
        found: tuple[Channel, ...] = (
            Mail(mailer, links),
            Slack(poster),
            Discord(poster),
            Teams(poster),
            PagerDuty(poster),
            Webhook(poster),
        )
        self._by_kind = {one.kind: one for one in found}

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, mailer: Mailer | None, links: ConfirmationLinks | None = None, *, allow_private: bool
    ) -> AsyncIterator[Self]:
        async with Poster(allow_private=allow_private) as poster:
            yield cls(poster, mailer, links)

    @property
    def has_mail(self) -> bool:
        return self._mailer is not None

    def __getitem__(self, kind: str) -> Channel:
        """Return the channel of this kind. Raises `UnknownChannelError`."""
        try:
            return self._by_kind[TargetKind(kind)]
        except ValueError:
            raise UnknownChannelError(kind) from None

    def recognise(self, text: str) -> tuple[Channel, str]:
        """Return the channel of an address that a user entered, and the address in the form in which it is stored.

        Raises `InvalidAlertTarget`.
        """
        for channel in self._by_kind.values():
            if (address := channel.read(text.strip())) is not None:
                return channel, address
        raise refused(
            "Give a URL such as https://example.com/alerts, without a user or password in it, a mail address, or an "
            "integration key of PagerDuty."
        )

    async def send(self, kind: str, address: str, secret: str | None, notice: Notice, now: datetime) -> Outcome:
        """Send the notice once; any error becomes the outcome, so that it delays no other delivery."""
        try:
            return await self[kind].send(address, secret, notice, now)
        except PostError as error:
            return Outcome.failed(str(error))
        except Exception as error:  # noqa: BLE001  # Any fault of one target must not hold up the others.
            log.warning("alert_failed", project=notice.project_id, kind=kind, error=type(error).__name__)
            return Outcome.failed("cannot be sent to this address")

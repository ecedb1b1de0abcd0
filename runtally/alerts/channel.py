"""The protocol of channels: recognise an address, mask it, send a notice to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self
from uuid import UUID

import msgspec

from runtally.models.alert import AlertKind, TargetKind


class Outcome(NamedTuple):
    """Whether an alert was accepted, and why or why not in a few words, which never quote the receiver."""

    is_taken: bool
    answer: str

    @classmethod
    def taken(cls, by: str) -> Self:
        return cls(is_taken=True, answer=f"taken by {by}")

    @classmethod
    def failed(cls, why: str) -> Self:
        return cls(is_taken=False, answer=why)


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert as channels send it."""

    alert_id: UUID
    project_id: str
    kind: AlertKind
    level: int
    title: str
    text: str
    """Sentences, one a line."""
    document: str
    """The alert as JSON, as generic webhooks get it."""
    is_over: bool = False
    """Whether it closes the incident that the alert opened. Only channels of `OPENED_AT` get such a notice."""

    @property
    def id(self) -> str:
        """An id that is the same on every try, so that a receiver can drop duplicates."""
        return f"msg_{self.alert_id.hex}"

    @property
    def data(self) -> dict[str, Any]:
        """The facts of the alert, by name."""
        found: dict[str, Any] = msgspec.json.decode(self.document)["data"]
        return found

    @property
    def timestamp(self) -> str:
        return str(msgspec.json.decode(self.document)["timestamp"])

    @property
    def url(self) -> str | None:
        """The project's page, where PUBLIC_URL is set."""
        return self.data.get("url")

    @property
    def link_label(self) -> str:
        """What to call a link to this page: without a project it leads to the overview."""
        return "Open the project" if self.project_id else "Open the overview"


class Channel(Protocol):
    """A way to send alerts. `channels` has a module for each; `registry` lists them."""

    @property
    def kind(self) -> TargetKind: ...

    @property
    def label(self) -> str:
        """The channel's name on pages."""

    def read(self, text: str) -> str | None:
        """Return the address in the form in which it is stored, or None if it does not belong to this channel.

        Raises `InvalidAlertTarget` where it is, but alerts cannot be sent there.
        """

    def mask(self, address: str) -> str:
        """Return the address without its secret parts, for pages, logs and the audit log."""

    def new_secret(self) -> str | None:
        """Return a new secret to sign with; None where nothing is signed."""

    async def send(self, address: str, secret: str | None, notice: Notice, now: datetime) -> Outcome:
        """Send the notice once. Raises `PostError`."""


def shorten(text: str, limit: int) -> str:
    """Cut the text to a receiver's limit."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

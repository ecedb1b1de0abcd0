"""What channels have in common: recognise an address, mask it, send a notice to it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Self
from uuid import UUID

import msgspec

from runtally.alerts.posting import Answer, mask_url
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


class Channel(ABC):
    """A way to send alerts. `channels` has a module for each; `registry` lists them."""

    kind: ClassVar[TargetKind]
    label: ClassVar[str]
    """The channel's name on pages."""

    @abstractmethod
    def read(self, text: str) -> str | None:
        """Return the address in the form in which it is stored, or None if it does not belong to this channel.

        Raises `InvalidAlertTarget` where it is, but alerts cannot be sent there.
        """

    def mask(self, address: str) -> str:
        """Return the address without its secret parts, for pages, logs and the audit log."""
        return mask_url(address)

    def new_secret(self) -> str | None:
        """Return a new secret to sign with; None where nothing is signed."""
        return None

    @abstractmethod
    async def send(self, address: str, secret: str | None, notice: Notice, now: datetime) -> Outcome:
        """Send the notice once. Raises `PostError`."""

    def outcome(self, answer: Answer, refusal: str | None) -> Outcome:
        """Return the outcome by an answer's status; a refusal that is known is said in place of the status."""
        if answer.is_success:
            return Outcome.taken(self.label)
        return Outcome.failed(refusal or f"{self.label} answered HTTP {answer.status}")


def shorten(text: str, limit: int) -> str:
    """Cut the text to a receiver's limit."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

"""A position in the order of runs, and how it is written into a URL."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

import msgspec

from runtally.errors import Detail, InvalidFilter


class Direction(StrEnum):
    """The direction from a place; each value is a query parameter."""

    OLDER = "before"
    NEWER = "after"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a run in the order of runs: its time, and its key among runs of the same time."""

    occurred_at: datetime
    id: str
    project_id: str

    @property
    def token(self) -> str:
        """The place as text that is safe in a URL."""
        packed = msgspec.json.encode((self.occurred_at, self.id, self.project_id))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Read a place from its token. Raises `ValueError` for an invalid one."""
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        place = cls(*msgspec.json.decode(packed, type=tuple[datetime, str, str]))
        # Our tokens have a time zone, and Postgres stores no NUL.
        if place.occurred_at.tzinfo is None or "\0" in place.id + place.project_id:
            raise ValueError(token)
        return place


@dataclass(frozen=True, slots=True)
class Position:
    """The position where a page begins: the newest run, or one side of a place."""

    direction: Direction = Direction.OLDER
    place: Place | None = None

    @classmethod
    def parse(cls, before: str | None, after: str | None) -> Self:
        """Read the position from query parameters. Raises `InvalidFilter`."""
        direction = Direction.NEWER if after else Direction.OLDER
        token = after or before
        if not token:
            return cls()
        try:
            return cls(direction, Place.of_token(token))
        except (ValueError, binascii.Error, msgspec.DecodeError):
            message = "must be the address of a link on the page; start again from the newest runs"
            raise InvalidFilter(details=(Detail(direction.value, message),)) from None


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """The time that a scan covers: from `begin`, in its direction, to `end`; None means no limit."""

    begin: datetime | None = None
    end: datetime | None = None
    models: Sequence[str] | None = None
    """The only models that match, where their runs are few enough to look up at once."""
    is_empty: bool = False

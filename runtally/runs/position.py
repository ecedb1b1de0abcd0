"""A place in the order of runs, and how it is written into a URL."""

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
    """Which way from a place; each is a query parameter."""

    OLDER = "before"
    NEWER = "after"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run stands: by its time, and by its key among runs of the same time."""

    occurred_at: datetime
    id: str
    project_id: str

    @property
    def token(self) -> str:
        """Safe in a URL."""
        packed = msgspec.json.encode((self.occurred_at, self.id, self.project_id))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def of_token(cls, token: str) -> Self:
        """Raises `ValueError` for what is no token."""
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        place = cls(*msgspec.json.decode(packed, type=tuple[datetime, str, str]))
        # Ours have a time zone, and Postgres holds no NUL.
        if place.occurred_at.tzinfo is None or "\0" in place.id + place.project_id:
            raise ValueError(token)
        return place


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: at the newest run, or on one side of a place."""

    direction: Direction = Direction.OLDER
    place: Place | None = None

    @classmethod
    def parse(cls, before: str | None, after: str | None) -> Self:
        """Raises `InvalidFilter`."""
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
class Stretch:
    """From `begin` on, in the direction of the walk, to `end`; None: as far as there are runs."""

    begin: datetime | None = None
    end: datetime | None = None
    models: Sequence[str] | None = None
    """The only models that match, where their runs are few enough to look up at once."""
    is_empty: bool = False

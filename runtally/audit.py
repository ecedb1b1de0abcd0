"""Who acts."""

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    ANYONE = "anyone"
    INGEST = "ingest"
    KEY = "key"
    DEVELOPER = "developer"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever makes a request: `scopes` says what they may do, `project_id` where (None: in every project)."""

    kind: ActorKind
    name: str
    scopes: frozenset[str]
    project_id: str | None = None


ANYONE = Actor(ActorKind.ANYONE, "anyone", frozenset())
"""Whoever makes a request that needs no credentials."""

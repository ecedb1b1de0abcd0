"""What a key may do, and where."""

from collections.abc import Iterable
from enum import StrEnum

from runtally.audit import Actor
from runtally.errors import Forbidden, InvalidScope


class Scope(StrEnum):
    """What a key may be issued for."""

    METRICS_READ = "metrics:read"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    ADMIN = "admin"
    """Everything, in every project."""


def parse_scopes(names: Iterable[str]) -> tuple[Scope, ...]:
    """The scopes by their names, in order, each once. Raises `InvalidScope`."""
    try:
        return tuple(dict.fromkeys(Scope(name.strip()) for name in names))
    except ValueError:
        raise InvalidScope(f"Use scopes out of {', '.join(Scope)}.") from None


def may(actor: Actor, scope: Scope, project_id: str | None) -> bool:
    """Whether the actor may do that in that project; `project_id` None means in all projects at once."""
    if Scope.ADMIN in actor.scopes:
        return True
    return scope in actor.scopes and project_id is not None and actor.project_id == project_id


def demand(actor: Actor, scope: Scope, project_id: str | None) -> None:
    """Raises `Forbidden` unless the actor may."""
    if not may(actor, scope, project_id):
        raise Forbidden

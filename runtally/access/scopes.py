"""The scopes of keys, and checks of what an actor may do where."""

from collections.abc import Iterable
from enum import StrEnum

from runtally.audit import Actor, ActorKind
from runtally.errors import Forbidden, InvalidScope, NotFound


class Scope(StrEnum):
    """A permission that a key may be issued for."""

    METRICS_READ = "metrics:read"
    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    BUDGETS_WRITE = "budgets:write"
    ALERTS_WRITE = "alerts:write"
    EXPERIMENTS_WRITE = "experiments:write"
    PROJECT_WRITE = "project:write"
    """A project's name, retention, tracked keys, rules for names and links."""
    ADMIN = "admin"
    """Everything, in every project."""


class Permission(StrEnum):
    """A permission of users besides reading; no key is issued for it."""

    EDIT_PROJECT = "project:edit"
    """A project's name, keys, experiments and the like; not who its users are."""


def parse_scopes(names: Iterable[str]) -> tuple[Scope, ...]:
    """The scopes by their names, in order, each once. Raises `InvalidScope`."""
    try:
        return tuple(dict.fromkeys(Scope(name.strip()) for name in names))
    except ValueError:
        raise InvalidScope(f"Use scopes out of {', '.join(Scope)}.") from None


def may(actor: Actor, scope: Scope | Permission, project_id: str | None) -> bool:
    """Return whether the actor may do this in the project; `project_id` None means in all projects at once."""
    if Scope.ADMIN in actor.scopes:
        return True
    if project_id is None:
        return False
    return scope in actor.grants.get(project_id, ()) or (scope in actor.scopes and actor.project_id == project_id)


def demand(actor: Actor, scope: Scope | Permission, project_id: str | None) -> None:
    """Raises `Forbidden` unless the actor may; `NotFound` for a project that is none of a user's, like one that is not."""
    if may(actor, scope, project_id):
        return
    if actor.kind is not ActorKind.USER:
        raise Forbidden
    if project_id is not None and project_id not in actor.grants:
        raise NotFound
    raise Forbidden("Your role doesn't include this; ask an admin for another one.")

"""The scopes of keys and of roles, checks of what an actor may do where, and the mask of names for readers who may not see them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from runtally.audit import Actor, ActorKind
from runtally.errors import Forbidden, InvalidScope, InvalidUser, NotFound
from runtally.fields import is_team
from runtally.models.user import Role
from runtally.names import LiveNames


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


def open_to(actor: Actor, scope: Scope) -> list[str] | None:
    """Return the projects and teams in which the actor may do this; None is every one."""
    if may(actor, scope, None):
        return None
    known = {*actor.grants, *([actor.project_id] if actor.project_id else [])}
    return sorted(id_ for id_ in known if may(actor, scope, id_))


def demand(actor: Actor, scope: Scope | Permission, project_id: str | None) -> None:
    """Raises `Forbidden` unless the actor may; `NotFound` for a project that is none of a user's, like one that is not."""
    if may(actor, scope, project_id):
        return
    if actor.kind is not ActorKind.USER:
        raise Forbidden
    if project_id is not None and project_id not in actor.grants:
        raise NotFound
    raise Forbidden("Your role doesn't include this; ask an admin for another one.")


SCOPES: Mapping[Role, frozenset[str]] = {
    Role.ADMIN: frozenset({Scope.ADMIN}),
    Role.MEMBER: frozenset({Scope.METRICS_READ, Scope.RUNS_READ, Permission.EDIT_PROJECT}),
    Role.VIEWER: frozenset({Scope.METRICS_READ, Scope.RUNS_READ}),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role and where it holds: admin in all projects, the others in one, or in those of a team. Raises `InvalidUser` for anything else."""

    role: Role
    project_id: str | None

    def __post_init__(self) -> None:
        if (self.role is Role.ADMIN) != (self.project_id is None):
            why = "Admins see every project; choose none." if self.role is Role.ADMIN else "Choose a project."
            raise InvalidUser.at("project", why)


def user_actor(id_: UUID, email: str, roles: Mapping[str, Role], *, is_admin: bool) -> Actor:
    """A user with these roles by project. A user of one project alone, and no team, is, like a key, an actor of that project."""
    if is_admin:
        return Actor(ActorKind.USER, str(id_), SCOPES[Role.ADMIN], label=email)
    grants = {project_id: SCOPES[role] for project_id, role in roles.items()}
    if len(grants) == 1 and not any(map(is_team, grants)):
        [(project_id, scopes)] = grants.items()
        return Actor(ActorKind.USER, str(id_), scopes, project_id, email, grants)
    return Actor(ActorKind.USER, str(id_), frozenset(), None, email, grants)


@dataclass(frozen=True, slots=True)
class NameMask:
    """The mask of a request: a reader without `runs:read` for a project sees hashes in place of names."""

    names: LiveNames
    actor: Actor

    def is_hidden(self, project_id: str | None, key: str) -> bool:
        return not may(self.actor, Scope.RUNS_READ, project_id) and self.names.is_hidden(project_id, key)

    def shown(self, key: str, value: str) -> str:
        return self.names.shown(key, value)

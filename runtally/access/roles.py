"""The scopes of each role."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from runtally.access.scopes import Permission, Scope
from runtally.audit import Actor, ActorKind
from runtally.errors import Detail, InvalidUser
from runtally.models.user import Role

SCOPES: Mapping[Role, frozenset[str]] = {
    Role.ADMIN: frozenset({Scope.ADMIN}),
    Role.MEMBER: frozenset({Scope.METRICS_READ, Scope.RUNS_READ, Permission.EDIT_PROJECT}),
    Role.VIEWER: frozenset({Scope.METRICS_READ, Scope.RUNS_READ}),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role and where it holds: admin in all projects, the others in one. Raises `InvalidUser` for anything else."""

    role: Role
    project_id: str | None

    def __post_init__(self) -> None:
        if (self.role is Role.ADMIN) != (self.project_id is None):
            why = "Admins see every project; choose none." if self.role is Role.ADMIN else "Choose a project."
            raise InvalidUser(why, details=(Detail("project", why),))


def user_actor(id_: UUID, email: str, roles: Mapping[str, Role], *, is_admin: bool) -> Actor:
    """A user with these roles by project. A user of one project alone is, like a key, an actor of that project."""
    if is_admin:
        return Actor(ActorKind.USER, str(id_), SCOPES[Role.ADMIN], label=email)
    grants = {project_id: SCOPES[role] for project_id, role in roles.items()}
    if len(grants) == 1:
        [(project_id, scopes)] = grants.items()
        return Actor(ActorKind.USER, str(id_), scopes, project_id, email, grants)
    return Actor(ActorKind.USER, str(id_), frozenset(), None, email, grants)

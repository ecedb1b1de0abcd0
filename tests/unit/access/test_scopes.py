"""Who may do what, where."""

import pytest

from runtally.access.scopes import Permission, Scope, demand, may, parse_scopes
from runtally.audit import Actor, ActorKind
from runtally.errors import Forbidden, InvalidScope, NotFound

SERVICE = Actor(ActorKind.INGEST, "shared", frozenset({Scope.RUNS_WRITE}))
KEY = Actor(ActorKind.KEY, "key", frozenset({Scope.METRICS_READ}), "a")
ADMIN = Actor(ActorKind.KEY, "admin", frozenset({Scope.ADMIN}))
MEMBER = Actor(ActorKind.USER, "ada", frozenset(), grants={"a": frozenset({Permission.EDIT_PROJECT})})


@pytest.mark.parametrize(
    ("actor", "scope", "project_id", "allowed"),
    [
        (ADMIN, Scope.RUNS_READ, None, True),
        (ADMIN, Permission.EDIT_PROJECT, "a", True),
        # A scope without a project is none in all projects at once.
        (SERVICE, Scope.RUNS_WRITE, None, False),
        (SERVICE, Scope.RUNS_WRITE, "a", False),
        (KEY, Scope.METRICS_READ, "a", True),
        (KEY, Scope.METRICS_READ, "b", False),
        (KEY, Scope.METRICS_READ, None, False),
        (KEY, Scope.RUNS_READ, "a", False),
        (MEMBER, Permission.EDIT_PROJECT, "a", True),
        (MEMBER, Permission.EDIT_PROJECT, "b", False),
        (MEMBER, Permission.EDIT_PROJECT, None, False),
        (MEMBER, Scope.RUNS_READ, "a", False),
    ],
)
def test_who_may_do_what_where(actor: Actor, scope: Scope | Permission, project_id: str | None, allowed: bool) -> None:
    assert may(actor, scope, project_id) is allowed


def test_scopes_are_read_without_blanks_and_each_once() -> None:
    assert parse_scopes([" runs:write ", "metrics:read", "runs:write"]) == (Scope.RUNS_WRITE, Scope.METRICS_READ)
    with pytest.raises(InvalidScope):
        parse_scopes(["runs: write"])


@pytest.mark.parametrize(
    ("actor", "project_id", "refusal"),
    [
        # A key is for one project; which others there are is no secret to who operates it.
        (KEY, "b", Forbidden),
        (KEY, None, Forbidden),
        (MEMBER, "b", NotFound),
        (MEMBER, "a", Forbidden),
        (MEMBER, None, Forbidden),
    ],
)
def test_a_project_of_others_is_none_to_a_user_and_forbidden_to_a_key(
    actor: Actor, project_id: str | None, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal) as raised:
        demand(actor, Scope.RUNS_READ, project_id)

    assert type(raised.value) is refusal


def test_who_may_is_not_refused() -> None:
    demand(KEY, Scope.METRICS_READ, "a")

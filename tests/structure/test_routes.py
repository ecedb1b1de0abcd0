"""What every route must have: an access rule, words, an entry in the OpenAPI document, and few statements."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import pytest
from quart import Quart
from werkzeug.routing import Rule

import api
from api.access import declared_rule
from api.guards import GUARDS
from api.openapi import TAGS, routes_of
from api.operation import operation_of
from tests.serving import settings_for
from webapp.app import create_app

MAX_STATEMENTS = 20

app: Quart = create_app(settings_for("postgresql://nowhere"))


class Route(NamedTuple):
    rule: Rule
    view: Callable[..., object]

    @property
    def is_documented(self) -> bool:
        """Whether it is of the API; /metrics, for monitoring, speaks Prometheus' language instead."""
        return api.serves(self.rule.rule) and self.rule.rule != "/metrics"


ROUTES = {
    f"{' '.join(sorted(rule.methods or set()))} {rule.rule}": Route(rule, app.view_functions[rule.endpoint])
    for rule in app.url_map.iter_rules()
}
API = [name for name, route in ROUTES.items() if route.is_documented]


def test_there_are_routes_to_look_at() -> None:
    assert len(API) >= 7
    assert len(ROUTES) > len(API)


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_declares_its_access_rule(name: str) -> None:
    assert declared_rule(ROUTES[name].view) is not None


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_has_a_docstring(name: str) -> None:
    summary = (inspect.getdoc(ROUTES[name].view) or "").partition("\n")[0]

    assert summary.endswith(".")


@pytest.mark.parametrize("name", ROUTES)
def test_its_view_is_short(name: str) -> None:
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(ROUTES[name].view)))
    function = ast.parse(source).body[0]

    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    # The function itself and its docstring are none.
    assert len(statements) - 2 <= MAX_STATEMENTS


@pytest.mark.parametrize("name", API)
def test_it_is_in_the_openapi_document(name: str) -> None:
    operation, rule = operation_of(ROUTES[name].view), declared_rule(ROUTES[name].view)

    assert operation is not None, "declare it with @documents"
    assert operation.tag in TAGS
    assert rule is not None
    assert rule.name in GUARDS, "say in api.guards how this rule looks from outside"
    assert ROUTES[name].view in [route.view for route in routes_of(app)]


def test_only_the_api_is_in_the_openapi_document() -> None:
    assert {route.path for route in routes_of(app) if not route.path.startswith(("/api/", "/v1/"))} == set()


@pytest.mark.parametrize("name", API)
def test_no_path_of_the_api_redirects_to_another(name: str) -> None:
    assert not name.endswith("/")
    assert not app.url_map.merge_slashes
    assert ROUTES[name].rule.redirect_to is None

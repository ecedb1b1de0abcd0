"""What every route must have: an access rule, words, an entry in the OpenAPI document, and few statements."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from werkzeug.routing import Rule

import api
from api.access import declared_rule
from api.openapi import GUARDS, TAGS, routes_of
from api.operation import operation_of
from tests.routes import APP

MAX_STATEMENTS = 20


class Route(NamedTuple):
    rule: Rule
    view: Callable[..., object]

    @property
    def is_documented(self) -> bool:
        """Whether it is of the API; /metrics, for monitoring, speaks Prometheus' language instead."""
        return api.serves(self.rule.rule) and self.rule.rule != "/metrics"


ROUTES = {
    f"{' '.join(sorted(rule.methods or set()))} {rule.rule}": Route(rule, APP.view_functions[rule.endpoint])
    for rule in APP.url_map.iter_rules()
}
API = [name for name, route in ROUTES.items() if route.is_documented]


def test_there_are_routes_to_look_at() -> None:
    assert len(API) >= 7
    assert len(ROUTES) > len(API)


def statements_of(view: Callable[..., object]) -> int:
    function = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(view)))).body[0]
    # The function itself and its docstring are none.
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 2


def test_each_route_declares_its_access_rule() -> None:
    assert [name for name, route in ROUTES.items() if declared_rule(route.view) is None] == []


def test_each_route_has_a_docstring() -> None:
    summaries = {name: (inspect.getdoc(route.view) or "").partition("\n")[0] for name, route in ROUTES.items()}

    assert {name: summary for name, summary in summaries.items() if not summary.endswith(".")} == {}


def test_each_view_is_short() -> None:
    lengths = {name: statements_of(route.view) for name, route in ROUTES.items()}

    assert {name: length for name, length in lengths.items() if length > MAX_STATEMENTS} == {}


def test_each_route_of_the_api_is_in_the_openapi_document() -> None:
    documented = [route.view for route in routes_of(APP)]

    for name in API:
        operation, rule = operation_of(ROUTES[name].view), declared_rule(ROUTES[name].view)
        assert operation is not None, f"declare {name} with @documents"
        assert operation.tag in TAGS, name
        assert rule is not None, name
        assert rule.name in GUARDS, f"say in api.openapi how the rule of {name} looks from outside"
        assert ROUTES[name].view in documented, name


def test_only_the_api_is_in_the_openapi_document() -> None:
    assert {route.path for route in routes_of(APP) if not route.path.startswith(("/api/", "/v1/"))} == set()


def test_no_path_of_the_api_redirects_to_another() -> None:
    assert not APP.url_map.merge_slashes
    assert [name for name in API if name.endswith("/") or ROUTES[name].rule.redirect_to is not None] == []

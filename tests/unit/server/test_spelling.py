"""Whether a path is written as its route says."""

from typing import cast
from urllib.parse import unquote

import pytest
from quart import Quart

from runtally.errors import NotFound
from webapp.server.hosts import is_spelled_as, refuse_other_spellings

ROTATE = "/projects/<project_id:project_id>/settings/keys/<uuid:key_id>/rotate"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/", b"/"),
        ("/api/ingest", b"/api/ingest"),
        ("/projects/<project_id:project_id>", b"/projects//b"),
        ("/projects/<project_id:project_id>", b"/projects/%2Fb%69"),
        ("/charts/<any(cost,runs):name>.json", b"/charts/cost.json"),
        (ROTATE, b"/projects/a/settings/keys/b/rotate"),
        (ROTATE, b"/projects/a/settings/keys/x/settings/keys/b/rotate"),
    ],
)
def test_variable_parts_may_be_anything(pattern: str, path: bytes) -> None:
    assert is_spelled_as(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/", b"//"),
        ("/api/ingest", b"//api/ingest"),
        ("/api/ingest", b"/api%2Fingest"),
        ("/api/ingest", b"/api/%69ngest"),
        ("/projects/<project_id:project_id>", b"//projects/a"),
        ("/projects/<project_id:project_id>", b"/project%73/a"),
        ("/projects/<project_id:project_id>", b"/projects/"),
        ("/charts/<any(cost,runs):name>.json", b"/charts/cost%2Ejson"),
        (ROTATE, b"/projects/a/settings/k%65ys/b/rotate"),
        (ROTATE, b"/projects/a/settings/keys/b/%72otate"),
        (ROTATE, b"/projects/a/settings/keys/rotate"),
        # No variable part is empty.
        (ROTATE, b"/projects//settings/keys/b/rotate"),
        (ROTATE, b"/projects/settings/keys/b/rotate"),
        (ROTATE, b"/projects/a/settings/keys//rotate"),
    ],
)
def test_the_rest_must_be_written_as_it_is(pattern: str, path: bytes) -> None:
    assert not is_spelled_as(pattern, path)


@pytest.mark.parametrize(
    ("method", "raw_path", "status"),
    [
        ("POST", b"/api/ingest", 200),
        ("POST", b"/api/%69ngest", 404),
        # A wrong method gets an error that says so, but at no other spelling.
        ("GET", b"/api/ingest", 405),
        ("GET", b"/api/%69ngest", 404),
        ("GET", b"/none-such", 404),
    ],
)
async def test_another_spelling_is_not_found_whatever_the_method(method: str, raw_path: bytes, status: int) -> None:
    assert await status_of(unquote(raw_path.decode()), raw_path, method=method) == status


@pytest.mark.parametrize(
    ("path", "raw_path", "root_path", "status"),
    [
        # Some servers do not tell how the path was written.
        ("/api/ingest", None, "", 200),
        ("/api/ingest", b"", "", 200),
        # Some tell the query with it.
        ("/api/ingest", b"/api/ingest?next=/%69ngest", "", 200),
        ("/api/ingest", b"/behind/a/proxy/api/ingest", "/behind/a/proxy", 200),
        ("/api/ingest", b"/behind/a/proxy/api/%69ngest", "/behind/a/proxy", 404),
        ("/api/ingest", b"/behind/a/proxy/api/ingest", "", 404),
        ("/", b"/behind/a/proxy", "/behind/a/proxy", 200),
        # A path of PUBLIC_URL was taken off before, and a route may begin with its letters.
        ("/api/ingest", b"/api/ingest", "/a", 200),
    ],
)
async def test_a_path_is_compared_without_its_query_and_without_what_a_proxy_puts_before(
    path: str, raw_path: bytes | None, root_path: str, status: int
) -> None:
    assert await status_of(path, raw_path, root_path) == status


async def status_of(path: str, raw_path: bytes | None, root_path: str = "", *, method: str = "POST") -> int:
    app = Quart(__name__)
    app.before_request(refuse_other_spellings)
    app.register_error_handler(NotFound, lambda _: ("", 404))
    app.add_url_rule("/api/ingest", "ingest", lambda: "", methods=["POST"])
    app.add_url_rule("/", "index", lambda: "", methods=["POST"])

    async with app.test_request_context(path, method=method) as context:
        cast("dict[str, object]", context.request.scope)["raw_path"] = raw_path
        context.request.root_path = root_path
        response = await app.full_dispatch_request()

    return response.status_code

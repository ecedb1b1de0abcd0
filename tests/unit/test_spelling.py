"""Whether a path is written as its route says."""

import pytest

from webapp.spelling import is_spelled_as

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
    ],
)
def test_the_rest_must_be_written_as_it_is(pattern: str, path: bytes) -> None:
    assert not is_spelled_as(pattern, path)

"""The key of an OTLP request, and the project that its runs belong to."""

from base64 import b64encode
from urllib.parse import quote

import httpx
import pytest
from quart import Quart

from runtally.access.scopes import Scope
from runtally.db.database import Database
from tests.factories import make_key
from tests.otlp import JSON, PROTOBUF, RUN, assert_refused, basic, ids_of, request_for
from tests.serving import INGEST_KEY
from tests.spans import SPAN, as_json, joined, make_request, make_span
from tests.stored import stored_runs

KEYS = {
    "a bearer": {"Authorization": f"Bearer {INGEST_KEY}"},
    "a bearer, percent-encoded": {"Authorization": f"Bearer%20{INGEST_KEY}"},
    "a bearer in small letters": {"Authorization": f"bearer {INGEST_KEY}"},
    "x-api-key": {"x-api-key": INGEST_KEY},
    "x-api-key, percent-encoded": {"x-api-key": quote(INGEST_KEY, safe="").replace("-", "%2D")},
    "Basic": {"Authorization": "Basic " + b64encode(f":{INGEST_KEY}".encode()).decode()},
    "Basic, percent-encoded": {
        "Authorization": "Basic%20" + quote(b64encode(f":{INGEST_KEY}".encode()).decode(), safe="")
    },
}


@pytest.mark.parametrize("headers", KEYS.values(), ids=KEYS.keys())
async def test_a_key_is_sent_in_the_ways_that_exporters_can(
    stranger: httpx.AsyncClient, database: Database, project_id: str, headers: dict[str, str]
) -> None:
    response = await stranger.post("/v1/traces", content=as_json(request_for(project_id)), headers={**JSON, **headers})

    assert response.status_code == 200
    assert await ids_of(database, project_id) == [RUN]


async def test_the_first_that_names_a_project_wins(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    in_path, in_header, in_user, in_resource = (
        f"{project_id}-{place}" for place in ("path", "header", "user", "resource")
    )
    body = as_json(request_for("service", **{"runtally.project": in_resource}))
    header = {"X-Runtally-Project": quote(in_header)}
    for path, headers, expected in (
        (f"/api/otlp/p/{in_path}/v1/traces", {**basic(in_user), **header}, in_path),
        ("/v1/traces", {**basic(in_user), **header}, in_header),
        ("/v1/traces", {**basic(in_user), "X-Runtally-Project": "%20"}, in_user),
        ("/v1/traces", basic(""), in_resource),
    ):
        response = await stranger.post(path, content=body, headers={**JSON, **headers})
        assert response.status_code == 200
        assert await ids_of(database, expected) == [RUN]


async def test_a_project_key_has_its_own_project_whatever_resources_say(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    body = as_json(request_for("other", **{"runtally.project": "another"}))

    for path, headers in (
        ("/v1/traces", {"Authorization": f"Bearer {key}"}),
        ("/v1/traces", {"Authorization": f"Bearer%20{key}", "X-Runtally-Project": project_id}),
        (f"/api/otlp/p/{project_id}/v1/traces", basic(project_id, key)),
    ):
        assert (await stranger.post(path, content=body, headers={**JSON, **headers})).status_code == 200

    assert await ids_of(database, project_id) == [RUN]
    (run,) = await stored_runs(database, project_id)
    assert run["key_id"] is not None


async def test_a_project_key_is_refused_where_another_project_is_named(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.RUNS_WRITE)
    for path, headers in (
        ("/v1/traces", {"Authorization": f"Bearer {key}", "X-Runtally-Project": "other"}),
        ("/api/otlp/p/other/v1/traces", {"Authorization": f"Bearer {key}"}),
        ("/v1/traces", basic("other", key)),
        ("/v1/metrics", basic("other", key)),
    ):
        response = await stranger.post(path, content=as_json(request_for("x")), headers={**JSON, **headers})
        assert_refused(response, 403, 7, says="project")

    assert await ids_of(database, project_id) == []


async def test_a_key_that_may_not_write_is_refused(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await make_key(database, project_id, Scope.METRICS_READ)

    response = await stranger.post("/v1/traces", content=b"{}", headers={**JSON, "Authorization": f"Bearer {key}"})

    assert_refused(response, 403, 7)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}, basic("p", "wrong")]
)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
async def test_without_a_right_key_nothing_is_taken(
    stranger: httpx.AsyncClient, headers: dict[str, str], kind: dict[str, str]
) -> None:
    response = await stranger.post("/v1/traces", content=b"{}", headers={**kind, **headers})

    assert_refused(response, 401, 16, says="INGEST_API_KEY")
    assert response.headers["www-authenticate"]


async def test_more_projects_than_a_request_may_have_are_rejected_and_the_first_ones_stored(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    requests = [request_for(f"{project_id}-{number:02}") for number in range(52)]

    response = await client.post("/v1/traces", content=as_json(joined(*requests)), headers=JSON)

    assert response.status_code == 200
    partial = response.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert "50" in partial["errorMessage"]
    assert await ids_of(database, f"{project_id}-49") == [RUN]
    assert await ids_of(database, f"{project_id}-50") == []


async def test_langfuse_is_shown_the_project_of_its_credentials(stranger: httpx.AsyncClient, project_id: str) -> None:
    response = await stranger.get("/api/public/projects", headers=basic(project_id))

    assert response.status_code == 200
    (project,) = response.json()["data"]
    assert (project["id"], project["name"]) == (project_id, project_id)
    refused = await stranger.get("/api/public/projects", headers=basic(project_id, "wrong"))
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_key"


async def test_without_a_name_runs_go_to_the_default_project(own_app: Quart, database: Database) -> None:
    client = own_app.test_client()
    span = make_span(traceId="d" * 32)

    response = await client.post(
        "/v1/traces",
        data=as_json(make_request(span, resource={"service.name": "unknown_service:node"})),
        headers={**JSON, "Authorization": f"Bearer {INGEST_KEY}"},
    )

    assert response.status_code == 200
    assert f"{'d' * 32}-{SPAN}" in await ids_of(database, "the-default")

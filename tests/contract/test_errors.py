"""The error shape, whichever part of the service finds the error."""

import httpx
import pytest

from runtally.access.keys import issue, revoke
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, free_port, settings_for
from webapp.app import create_app


async def test_an_unknown_api_path_is_404_as_json(stranger: httpx.AsyncClient) -> None:
    assert_error(await stranger.get("/api/nothing-here"), 404, "not_found")
    assert_error(await stranger.get("/api"), 404, "not_found")


async def test_another_method_is_405_as_json(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/ingest")

    assert_error(response, 405, "method_not_allowed")
    assert "POST" in response.headers["allow"]


async def test_an_unknown_page_is_404_as_html(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/nothing-here")

    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")


async def test_every_response_has_a_request_id_and_keeps_a_harmless_one(stranger: httpx.AsyncClient) -> None:
    made = await stranger.get("/api/health")
    kept = await stranger.get("/api/health", headers={"X-Request-Id": "trace-1.2_3"})
    longest = await stranger.get("/api/health", headers={"X-Request-Id": "x" * 64})

    assert len(made.headers["x-request-id"]) == 32
    assert kept.headers["x-request-id"] == "trace-1.2_3"
    assert longest.headers["x-request-id"] == "x" * 64
    for harmful in ("<script>", "x" * 65):
        replaced = await stranger.get("/api/health", headers={"X-Request-Id": harmful})
        assert len(replaced.headers["x-request-id"]) == 32


@pytest.mark.parametrize("settings", [{"ingest_api_key": ""}, {"ingest_api_key": " , "}])
async def test_ingest_that_no_key_may_open_is_closed(database_url: str, settings: dict[str, str]) -> None:
    app = create_app(settings_for(database_url, ingest_project_keys=False, **settings))
    async with app.test_app():
        response = await app.test_client().post(
            "/api/ingest", json=make_run(projectId="p"), headers={"Authorization": "Bearer "}
        )

        body = await response.get_json()

    assert response.status_code == 503
    assert body["error"]["code"] == "not_configured"


async def test_each_of_several_ingest_keys_is_accepted(database_url: str, database: Database, project_id: str) -> None:
    app = create_app(settings_for(database_url, ingest_api_key="old-key, new-key"))
    async with app.test_app():
        client = app.test_client()
        statuses = [
            (
                await client.post(
                    "/api/ingest", json=make_run(projectId=project_id), headers={"Authorization": f"Bearer {key}"}
                )
            ).status_code
            for key in ("old-key", "new-key", "old-key, new-key", "old-ke")
        ]

    assert statuses == [200, 200, 401, 401]


async def test_a_database_out_of_reach_is_503_with_retry_after() -> None:
    app = create_app(settings_for(f"postgresql://nobody@127.0.0.1:{free_port()}/none"))
    async with app.test_app():
        client = app.test_client()
        ingest = await client.post(
            "/api/ingest", json=make_run(projectId="p"), headers={"Authorization": f"Bearer {INGEST_KEY}"}
        )
        metrics = await client.get("/api/metrics", headers={"Authorization": "Bearer rt_any"})
        health = await client.get("/api/health")
        live = await client.get("/api/health/live")

        for response in (ingest, metrics):
            assert response.status_code == 503
            assert (await response.get_json())["error"]["code"] == "store_unavailable"
            assert int(response.headers["Retry-After"]) > 0
        assert health.status_code == 503
        assert (await health.get_json())["database"] == "unavailable"
        assert live.status_code == 200


async def test_a_bug_shows_nothing_but_its_code(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(*_: object) -> None:
        raise RuntimeError("secret-detail")

    monkeypatch.setattr("api.metrics.UsageReader.summary", break_down)
    app = create_app(settings_for(database_url, service_dev_mode=True))
    async with app.test_app():
        response = await app.test_client().get("/api/metrics?projectId=p")

        body = await response.get_json()

    assert response.status_code == 500
    assert body["error"]["code"] == "internal_error"
    assert "secret-detail" not in str(body)
    assert response.headers["X-Request-Id"]


async def test_a_revoked_and_an_expired_key_are_refused(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    async with database.session() as session:
        revoked = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
        revoke(session, system_clock(), OPERATOR, revoked.row)
        expired = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
        expired.row.expires_at = system_clock()

    for issued in (revoked, expired):
        response = await stranger.get("/api/metrics", headers={"Authorization": f"Bearer {issued.secret}"})
        assert_error(response, 401, "invalid_key", never=[issued.secret])

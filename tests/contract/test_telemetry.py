"""GET /metrics."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtally import __version__
from runtally.cells.cell import CONNECTIONS
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import insert_test_prices, make_run
from tests.serving import PATIENCE_SECONDS, Postgres, Server, client_of, free_port, running_server, settings_for
from webapp.app import create_app

TOKEN = "metrics-token-of-the-tests"
CANARY = "canary-5d1e"


@pytest.fixture(scope="module")
async def watched_url(postgres: Postgres) -> str:
    url = postgres.create_seeded("watched")
    async with Database(url) as database:
        await insert_test_prices(database)
    return url


@pytest.fixture(scope="module")
def watched(watched_url: str) -> Iterator[Server]:
    """A service with a metrics token, over a database of its own."""
    with running_server(watched_url, METRICS_TOKEN=f"{TOKEN},next-{TOKEN}") as server:
        yield server


async def scrape(server: Server, token: str = TOKEN, **headers: str) -> dict[str, float]:
    """Each sample by its name and labels."""
    async with client_of(server.url) as client:
        response = await client.get("/metrics", headers={"Authorization": f"Bearer {token}", **headers})
    assert response.status_code == 200, response.text
    return {
        " ".join([sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()) if key != "le")]): (
            sample.value
        )
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


async def ingest(server: Server, *runs: dict[str, Any]) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.ingest_key}"}
    async with client_of(server.url, headers) as client:
        return await client.post("/api/ingest", json={"projectId": "watched", "runs": runs})


async def test_metrics_are_for_holders_of_the_token(watched: Server) -> None:
    async with client_of(watched.url) as stranger:
        assert_error(await stranger.get("/metrics"), 401, "missing_key")
        wrong = await stranger.get("/metrics", headers={"Authorization": f"Bearer {CANARY}"})
        assert_error(wrong, 401, "invalid_key", never=[CANARY])
    assert await scrape(watched, f"next-{TOKEN}")


async def test_without_a_token_metrics_are_closed(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/metrics", headers={"Authorization": "Bearer any"})

    assert_error(response, 503, "not_configured")


async def test_in_dev_mode_metrics_need_no_token(dev_server: Server) -> None:
    async with client_of(dev_server.url) as stranger:
        assert (await stranger.get("/metrics")).status_code == 200


async def test_runs_are_counted_by_their_result(watched: Server) -> None:
    known = make_run(runId=str(uuid.uuid4()))
    before = await scrape(watched)

    await ingest(watched, known, make_run(provider="nobody-knows"))
    await ingest(watched, known)
    await ingest(watched, make_run(), make_run(inputTokens=-1))
    after = await scrape(watched)

    def grown(sample: str) -> float:
        return after[sample] - before[sample]

    assert grown("runtally_runs_total outcome=stored") == 2
    assert grown("runtally_runs_total outcome=duplicate") == 1
    assert grown("runtally_runs_total outcome=rejected") == 1
    assert grown("runtally_runs_unpriced_total") == 1


async def test_requests_are_counted_by_the_pattern_of_their_route(watched: Server) -> None:
    async with client_of(watched.url) as stranger:
        await stranger.get(f"/api/badge/experiment/{CANARY}?token={CANARY}")
        await stranger.get(f"/{CANARY}")
        await stranger.request(f"M-{CANARY}"[:20], "/api/health")
        samples = await scrape(watched)

    badge = "method=GET route=/api/badge/experiment/<experiment:experiment_id> status=200"
    assert samples[f"runtally_http_request_seconds_count {badge}"] == 1
    assert samples[f"runtally_http_request_seconds_sum {badge}"] > 0
    assert samples["runtally_http_request_seconds_count method=GET route=none status=404"] >= 1
    assert CANARY not in str(samples)


async def test_metrics_show_the_state_of_the_service(watched: Server) -> None:
    samples = await scrape(watched)

    assert any(f"version={__version__}" in name for name in samples if name.startswith("runtally_build_info"))
    assert samples["runtally_database_up"] == 1
    # The scrape itself holds none any more when it counts; a job may, for a moment.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await scrape(watched))["runtally_database_connections_in_use"]:
            pass
    assert samples["runtally_database_connections_limit"] == CONNECTIONS
    assert samples["runtally_relay_queue_runs"] == samples["runtally_relay_parked_runs"] == 0
    assert samples["runtally_relay_lag_seconds"] == 0
    assert 0 <= samples["runtally_price_book_age_seconds"] < 60
    assert any(name.startswith("runtally_price_book_info version=") for name in samples)
    assert samples["process_resident_memory_bytes"] > 0


async def test_openmetrics_is_answered_on_request(watched: Server) -> None:
    async with client_of(watched.url) as client:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/openmetrics-text; version=1.0.0"}
        response = await client.get("/metrics", headers=headers)

    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


async def test_metrics_are_answered_while_the_database_is_away() -> None:
    app = create_app(settings_for(f"postgresql://nobody@127.0.0.1:{free_port()}/none", metrics_token=TOKEN))
    async with app.test_app():
        response = await app.test_client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        text = await response.get_data(as_text=True)

    assert response.status_code == 200
    assert "runtally_database_up 0.0" in text
    assert "runtally_relay" not in text


async def test_several_workers_count_as_one(watched_url: str) -> None:
    with running_server(watched_url, workers=2, METRICS_TOKEN=TOKEN) as server:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # It answers as soon as the first of them does.
            while (await scrape(server))["runtally_database_connections_limit"] < 2 * CONNECTIONS:
                pass
        async with client_of(server.url, {"Connection": "close"}) as stranger:
            await asyncio.gather(*(stranger.get("/api/health/live") for _ in range(40)))
        first, second = await asyncio.gather(scrape(server), scrape(server))

        live = "runtally_http_request_seconds_count method=GET route=/api/health/live status=200"
        # One more or so asked whether the server was up.
        assert first[live] == second[live] >= 41
        assert first["runtally_database_connections_limit"] == 2 * CONNECTIONS
        assert second["runtally_database_connections_limit"] == 2 * CONNECTIONS

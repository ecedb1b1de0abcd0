"""Runs with the largest counts that ingest accepts: their sums are larger than a bigint, and every page adds them up."""

from collections.abc import AsyncIterator

import pytest
from quart import Quart

from runtally.fields import MAX_COUNT
from tests.factories import make_run
from tests.pages.looking import text_of
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

RUNS = 1_025
"""As many of `MAX_COUNT` that their sum is over 2^63 - 1."""
MODEL = "brand/largest"


@pytest.fixture
async def own_app(empty_database_url: str) -> AsyncIterator[Quart]:
    app = create_app(settings_for(empty_database_url, service_dev_mode=True))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


async def test_every_page_opens_with_sums_of_tokens_that_are_larger_than_a_bigint(own_app: Quart) -> None:
    reader, project_id = own_app.test_client(), "large"
    counts = {"inputTokens": MAX_COUNT, "outputTokens": MAX_COUNT, "cachedInputTokens": 0}
    run = make_run(provider="unknown", model=MODEL, sessionId="s", userId="u", **counts)
    for size in (1_000, RUNS - 1_000):
        answer = await reader.post(
            "/api/ingest",
            json={"projectId": project_id, "runs": [run] * size},
            headers={"Authorization": f"Bearer {INGEST_KEY}"},
        )
        assert answer.status_code == 200

    statuses = {}
    for rule in own_app.url_map.iter_rules():
        if "GET" in (rule.methods or ()) and rule.arguments <= {"project_id"} and rule.endpoint != "static":
            path = rule.rule.replace("<project_id:project_id>", project_id)
            statuses[path] = (await reader.get(path, headers={"Authorization": f"Bearer {INGEST_KEY}"})).status_code

    assert f"/projects/{project_id}/speed" in statuses
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
    prices = await reader.get("/admin/prices")
    assert MODEL in text_of(await prices.get_data(as_text=True))

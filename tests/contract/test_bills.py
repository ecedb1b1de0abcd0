"""/api/bills: a vendor's report is stored, compared and listed, by admins alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY

PATH = "/api/bills"


def bucket(start: datetime, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    seconds = int(start.timestamp())
    results = [{"object": f"organization.{kind}.result", **result}]
    page = {"object": "bucket", "start_time": seconds, "end_time": seconds + 86_400, "results": results}
    return {"object": "page", "data": [page], "has_more": False, "next_page": None}


@pytest.fixture
def day() -> datetime:
    """A day that is over."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=3)


@pytest.fixture
def headers(admin_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {admin_key}"}


async def test_a_report_is_stored_and_compared_until_another_replaces_it(
    client: AsyncClient, project_id: str, headers: dict[str, str], day: datetime
) -> None:
    model, at = f"sol-{project_id}", (day + timedelta(hours=5)).isoformat()
    run = make_run(projectId=project_id, provider="openai", model=model, timestamp=at, costUSD=None)
    assert (
        await client.post("/api/ingest", json=run, headers={"Authorization": f"Bearer {INGEST_KEY}"})
    ).status_code == 200
    usage = {"model": model, "input_tokens": 5_000, "output_tokens": 500, "num_model_requests": 5}
    cost = {"line_item": f"{model}, input", "amount": {"value": 0.25, "currency": "usd"}}
    reports = [bucket(day, "usage.completions", usage), bucket(day, "costs", cost)]

    response = await client.post(PATH, json={"reports": reports, "toleranceUSD": 0.1}, headers=headers)

    assert response.status_code == 201, response.text
    body = response.json()
    assert body["bill"]["provider"] == "openai"
    assert body["bill"]["since"] == f"{day:%Y-%m-%d}"
    assert body["bill"]["toleranceUSD"] == 0.1
    [found] = [one for one in body["models"] if one["name"] == model]
    assert (found["billedUSD"], found["computedUSD"], found["billedRequests"], found["requests"]) == (0.25, 0, 5, 1)
    assert [(one["reason"], one["amountUSD"]) for one in found["parts"]] == [("noPrice", 0.25), ("calls", 0)]

    listed = (await client.get(PATH, headers=headers)).json()["bills"]
    assert body["bill"] in listed
    again = await client.get(f"{PATH}/{body['bill']['id']}", headers=headers)
    assert again.json() == body
    text = (await client.get(f"{PATH}/{body['bill']['id']}?format=csv", headers=headers)).text
    assert f"openai,{model},0.25,0,0.25,noPrice,,0.25,," in text.splitlines()

    refused = await client.post(PATH, json={"reports": reports}, headers=headers)
    assert_error(refused, 422, "invalid_bill")
    replaced = await client.post(PATH, json={"reports": reports, "replace": True}, headers=headers)
    assert replaced.status_code == 201
    assert (await client.get(f"{PATH}/{body['bill']['id']}", headers=headers)).status_code == 404


async def test_an_amount_is_compared_with_what_its_days_cost(
    client: AsyncClient, project_id: str, headers: dict[str, str], day: datetime
) -> None:
    provider = f"vendor-{project_id}"
    run = make_run(projectId=project_id, provider=provider, timestamp=day.isoformat(), costUSD=3.5)
    assert (
        await client.post("/api/ingest", json=run, headers={"Authorization": f"Bearer {INGEST_KEY}"})
    ).status_code == 200
    sent = {"provider": provider, "since": f"{day:%Y-%m-%d}", "until": f"{day + timedelta(days=1):%Y-%m-%d}"}

    body = (await client.post(PATH, json={**sent, "amountUSD": 4}, headers=headers)).json()

    assert (body["total"]["billedUSD"], body["total"]["computedUSD"], body["total"]["differenceUSD"]) == (4, 3.5, 0.5)
    assert [one["reason"] for one in body["total"]["parts"]] == ["untold"]


@pytest.mark.parametrize(
    ("sent", "code", "paths"),
    [
        ({"amountUSD": 4}, "invalid_bill", ["provider"]),
        ({"amountUSD": -4}, "invalid_payload", ["amountUSD"]),
        ({"toleranceUSD": "4"}, "invalid_payload", ["toleranceUSD"]),
        ({"since": "today"}, "invalid_payload", ["since"]),
        ({"amount": 4}, "invalid_payload", ["amount"]),
        ({"reports": [{"a": 1}]}, "invalid_bill", []),
        ({"reports": []}, "invalid_bill", []),
        ({"provider": "x", "amountUSD": 1, "since": "2026-01-02", "until": "2026-01-02"}, "invalid_bill", []),
        ({"provider": "x", "amountUSD": 1, "since": "2099-01-01", "until": "2099-02-01"}, "invalid_bill", []),
    ],
)
async def test_what_is_no_bill_is_refused(
    client: AsyncClient, headers: dict[str, str], sent: dict[str, Any], code: str, paths: list[str]
) -> None:
    assert_error(await client.post(PATH, json=sent, headers=headers), 422, code, paths=paths)


async def test_bills_are_for_admins(client: AsyncClient, metrics_key: str) -> None:
    headers = {"Authorization": f"Bearer {metrics_key}"}
    for response in (
        await client.get(PATH, headers=headers),
        await client.get(f"{PATH}/{'0' * 32}", headers=headers),
        await client.post(PATH, json={}, headers=headers),
    ):
        assert_error(response, 403, "forbidden")

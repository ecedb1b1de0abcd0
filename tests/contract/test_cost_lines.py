"""GET /api/usage by line: what a bill consists of."""

import csv
import json
from decimal import Decimal
from io import StringIO
from typing import Any

import httpx

from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY

VARIED = {
    "model": "acme-varied",
    "serviceTier": "batch",
    "cacheWriteTokens": 500,
    "units": {"cacheWrite1h": 400, "webSearch": 2},
    "metadata": {"feature": "search"},
}
"""500 of 1,000 input tokens are written, 400 of these for an hour; the tier takes half of what tokens cost."""


async def send(client: httpx.AsyncClient, project_id: str, *runs: dict[str, Any]) -> None:
    sent = {"projectId": project_id, "runs": list(runs)}
    response = await client.post("/api/ingest", json=sent, headers={"Authorization": f"Bearer {INGEST_KEY}"})
    assert response.status_code == 200, response.text


async def ask(client: httpx.AsyncClient, key: str, **query: Any) -> httpx.Response:  # noqa: ANN401  # A value, or several.
    headers = {"Authorization": f"Bearer {key}"}
    return await client.get("/api/usage", params={"range": "24h", **query}, headers=headers)


async def read(client: httpx.AsyncClient, key: str, **query: Any) -> dict[str, Any]:  # noqa: ANN401  # As above.
    response = await ask(client, key, **query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = json.loads(response.text, parse_float=Decimal)
    return body


async def test_usage_by_line_says_what_each_part_of_the_bill_came_to(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    reported = {"provider": "openrouter", "model": "acme/routed", "costUSD": 0.5}
    await send(client, project_id, make_run(**VARIED), make_run(**reported), make_run(model="unheard-of"))

    body = await read(client, metrics_key, groupBy="line")

    found = {
        one["group"]["line"]: (one["name"], one["costUSD"], one["quantity"], one["measured"]) for one in body["totals"]
    }
    assert found == {
        "reported": ("Reported cost", Decimal("0.5"), None, None),
        "webSearch": ("Web searches", Decimal("0.02"), 2, "requests"),
        "output": ("Output", Decimal("0.0075"), 500, "tokens"),
        "cacheWrite1h": ("Cache write, 1 hour", Decimal("0.0024"), 400, "tokens"),
        "input": ("Input", Decimal("0.0015"), 500, "tokens"),
        "cacheWrite": ("Cache write", Decimal("0.000375"), 100, "tokens"),
        "tier": ("Service tier", Decimal("-0.0058875"), None, None),
    }
    [usage] = (await read(client, metrics_key))["totals"]
    assert sum(one["costUSD"] for one in body["totals"]) == body["costUSD"] == usage["costUSD"] == Decimal("0.5258875")
    assert (body["runs"], body["unpriced"]) == (3, 1)
    of_buckets = [line for bucket in body["buckets"] for line in bucket["groups"]]
    assert of_buckets == body["totals"]


async def test_lines_are_of_the_runs_of_a_filter_and_of_each_group(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await send(client, project_id, make_run(**VARIED), make_run(), make_run(status="error"))

    body = await read(client, metrics_key, groupBy=["metadata.feature", "line"], status="success")

    assert body["groupBy"] == ["metadata.feature", "line"]
    costs = [(*one["group"].values(), one["costUSD"]) for one in body["totals"] if one["group"]["line"] == "output"]
    assert costs == [("search", "output", Decimal("0.0075")), (None, "output", Decimal("0.0075"))]
    [filtered] = (await read(client, metrics_key, **{"metadata.feature": "search"}))["totals"]
    of_search = [one["costUSD"] for one in body["totals"] if one["group"]["metadata.feature"] == "search"]
    assert sum(of_search) == filtered["costUSD"]


async def test_lines_as_csv_add_up_to_the_last_digit(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await send(client, project_id, make_run(**VARIED), make_run())

    answer = await ask(client, metrics_key, groupBy=["line", "model"], format="csv")

    rows = list(csv.DictReader(StringIO(answer.text)))
    assert answer.text.splitlines()[0] == "start,end,line,model,name,costUSD,quantity,measured"
    assert sum(Decimal(row["costUSD"]) for row in rows) == (await read(client, metrics_key))["totals"][0]["costUSD"]
    assert {row["line"]: row["quantity"] for row in rows if row["model"] == "acme-large"} == {
        "input": "1000",
        "output": "500",
    }


async def test_a_line_is_named_once_beside_one_dimension(client: httpx.AsyncClient, metrics_key: str) -> None:
    for by in (["line", "line"], ["line", "model", "user"]):
        assert_error(await ask(client, metrics_key, groupBy=by), 422, "invalid_payload", paths=["groupBy"])
    assert (await read(client, metrics_key, groupBy="line"))["totals"] == []

"""What the fields of a run may be, and every limit of ingest: what is at it passes, what is one past it does not."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from runtally.clock import start_of_day
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

LARGEST_BODY = 5 * 1024 * 1024
JSON = {"Content-Type": "application/json"}

TEXTS = (
    "provider", "model", "id", "runId", "errorCode", "promptHash", "experimentId", "traceId", "idempotencyKey",
    "userId", "sessionId",
)  # fmt: skip
COUNTS = (
    "inputTokens",
    "outputTokens",
    "latencyMs",
    "cachedInputTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "timeToFirstTokenMs",
)
LARGEST_METADATA = 16 * 1024 - len('{"blob":""}')

LIMITS: dict[str, tuple[str, object, object]] = {
    **{name: (name, "x" * 256, "x" * 257) for name in TEXTS},
    **{name: (name, 2**53 - 1, 2**53) for name in COUNTS},
    "legacy latency": ("latency", 2**53 - 1, 2**53),
    "cost": ("costUSD", 10**12, 10**12 + 1),
    "legacy cost": ("cost", 10**12, 10**12 + 1),
    "finish reason": ("finishReason", "x" * 64, "x" * 65),
    "service tier": ("serviceTier", "x" * 32, "x" * 33),
    "region": ("region", "x" * 64, "x" * 65),
    "units": ("units", {f"u{n}": 1 for n in range(32)}, {f"u{n}": 1 for n in range(33)}),
    "a unit's name": ("units", {"x" * 64: 1}, {"x" * 65: 1}),
    "an unknown unit": ("units", {"made": 2**53 - 1}, {"made": 2**53}),
    "tags": ("tags", [str(n) for n in range(20)], [str(n) for n in range(21)]),
    "a tag": ("tags", ["x" * 64], ["x" * 65]),
    "preview": ("promptPreview", "é" * 160, "é" * 161),
    "levels of metadata": (
        "metadata",
        {"a": {"b": {"c": {"d": {}}}}},
        {"a": {"b": {"c": {"d": {"e": {}}}}}},
    ),
    "bytes of metadata": ("metadata", {"blob": "x" * LARGEST_METADATA}, {"blob": "x" * (LARGEST_METADATA + 1)}),
    "earliest time": ("timestamp", "2020-01-01T00:00:00Z", "2019-12-31T23:59:59.999999Z"),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_field_at_its_limit_is_taken_and_one_past_it_is_refused(
    client: httpx.AsyncClient, project_id: str, limit: str
) -> None:
    field, at, past = LIMITS[limit]
    whole = {"inputTokens": 2**53 - 1, "outputTokens": 2**53 - 1}

    taken = await client.post("/api/ingest", json=make_run(projectId=project_id, **whole) | {field: at})
    refused = await client.post("/api/ingest", json=make_run(projectId=project_id) | {field: past})

    assert taken.status_code == 200, taken.text
    assert_error(refused, 422, "invalid_payload", paths=[field])


async def test_a_project_id_has_at_most_128_characters(client: httpx.AsyncClient) -> None:
    taken = await client.post("/api/ingest", json=make_run(projectId="x" * 128))
    refused = await client.post("/api/ingest", json=make_run(projectId="x" * 129))

    assert taken.status_code == 200, taken.text
    assert_error(refused, 422, "invalid_payload", paths=["projectId"])


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_has_at_most_5_mib_also_after_gzip(
    client: httpx.AsyncClient, project_id: str, packed: bool
) -> None:
    headers = JSON | ({"Content-Encoding": "gzip"} if packed else {})

    async def post(length: int) -> httpx.Response:
        body = json.dumps(make_run(projectId=project_id, filler="")).encode()
        body = body.replace(b'"filler": ""', b'"filler": "' + b"x" * (length - len(body)) + b'"')
        return await client.post("/api/ingest", content=gzip.compress(body, 1) if packed else body, headers=headers)

    assert (await post(LARGEST_BODY)).status_code == 200
    assert_error(await post(LARGEST_BODY + 1), 413, "body_too_large")


@pytest.mark.parametrize("wrong", [49, 50, 51])
async def test_details_stop_at_50(client: httpx.AsyncClient, project_id: str, wrong: int) -> None:
    body = {"projectId": project_id, "runs": [make_run(inputTokens=-1)] * wrong}

    response = await client.post("/api/ingest", json=body)

    assert len(response.json()["error"]["details"]) == min(wrong, 50)


async def test_a_batch_holds_at_most_1000_runs(client: httpx.AsyncClient, project_id: str) -> None:
    full = await client.post("/api/ingest", json={"projectId": project_id, "runs": [make_run()] * 1000})
    over = await client.post("/api/ingest", json={"projectId": project_id, "runs": [make_run()] * 1001})

    assert full.json()["processed"] == 1000
    assert_error(over, 422, "batch_too_large")


@pytest.mark.parametrize("project", [7, {}, ["p"], "a\0b"])
async def test_a_project_that_is_no_string_or_has_a_nul_is_refused(client: httpx.AsyncClient, project: object) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project))

    assert_error(response, 422, "invalid_payload", paths=["projectId"])


BAD_FIELDS: list[tuple[str, object] | pytest.ParameterSet] = [
    ("provider", None),
    ("provider", ""),
    ("provider", "   "),
    ("provider", 7),
    ("model", None),
    ("model", ""),
    ("model", ["m"]),
    ("inputTokens", -1),
    ("inputTokens", 1.5),
    ("inputTokens", "12"),
    ("inputTokens", True),
    ("outputTokens", -1),
    ("cachedInputTokens", -1),
    ("cacheWriteTokens", -1),
    ("reasoningTokens", -1),
    ("audioInputTokens", -1),
    ("audioOutputTokens", 0.5),
    ("latencyMs", -1),
    ("latencyMs", 0.5),
    ("costUSD", -0.01),
    ("costUSD", "1.50"),
    ("costUSD", True),
    ("cost", -1),
    ("cost", "free"),
    ("latency", -1),
    ("tokens", 12),
    ("status", "failed"),
    ("status", "SUCCESS"),
    ("costSource", "guess"),
    ("costEstimated", "yes"),
    ("errorCode", 500),
    ("promptHash", "a\0b"),
    ("runId", 7),
    ("traceId", {}),
    ("experimentId", 1),
    ("userId", 7),
    ("sessionId", "a\0b"),
    ("finishReason", ["stop"]),
    ("tags", "beta"),
    ("tags", ["beta", 1]),
    ("tags", ["a\0b"]),
    ("timeToFirstTokenMs", -1),
    ("metadata", "text"),
    ("metadata", []),
    ("metadata", {"note": "a\0b"}),
    ("timestamp", "yesterday"),
    ("timestamp", 1_700_000_000),
    ("timestamp", "2019-12-31T23:59:59Z"),
    ("timestamp", "2100-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
async def test_a_field_that_breaks_its_constraint_is_named(
    client: httpx.AsyncClient, database: Database, project_id: str, field: str, value: object
) -> None:
    single = await client.post("/api/ingest", json=make_run(projectId=project_id) | {field: value})
    batch = await client.post(
        "/api/ingest", json={"projectId": project_id, "runs": [make_run(), make_run() | {field: value}]}
    )

    assert_error(single, 422, "invalid_payload", paths=[field])
    assert_error(batch, 422, "invalid_payload", paths=[f"runs[1].{field}"])
    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id)


GOOD_FIELDS: list[tuple[str, object] | pytest.ParameterSet] = [
    ("inputTokens", 0),
    ("latencyMs", 0),
    ("costUSD", 0),
    ("costUSD", 1e-30),
    ("status", "timeout"),
    ("costSource", "estimated"),
    ("costEstimated", True),
    ("metadata", {"note": "\\u0000 is only text here"}),
    ("timestamp", "2020-01-01T00:00:00Z"),
    ("runId", "a/b c?d=e&f#ü"),
]


@pytest.mark.parametrize(("field", "value"), GOOD_FIELDS)
async def test_a_field_within_its_constraint_is_accepted(
    client: httpx.AsyncClient, project_id: str, field: str, value: object
) -> None:
    response = await client.post("/api/ingest", json=make_run(projectId=project_id) | {field: value})

    assert response.status_code == 200, response.text


async def test_a_timestamp_may_be_up_to_a_day_ahead(client: httpx.AsyncClient, project_id: str) -> None:
    answers = [
        await client.post("/api/ingest", json=make_run(projectId=project_id, timestamp=at.isoformat()))
        for at in (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (1439, 1450))
    ]

    assert [answer.status_code for answer in answers] == [200, 422]


async def test_runs_older_than_the_project_keeps_them_are_refused(database_url: str, project_id: str) -> None:
    """Else one that is sent again after it was dropped would count twice."""
    app = create_app(settings_for(database_url, retention_days=31))
    headers = {"Authorization": f"Bearer {INGEST_KEY}"}
    async with app.test_app() as running:
        client, today = running.test_client(), None
        # Again, if a day ends meanwhile.
        while today != start_of_day(datetime.now(UTC)):
            today = start_of_day(datetime.now(UTC))
            runs = [make_run(timestamp=(today - timedelta(days=31, seconds=late)).isoformat()) for late in (0, 1)]
            refused = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs}, headers=headers)
            taken = await client.post("/api/ingest", json=runs[0] | {"projectId": project_id}, headers=headers)

    assert (refused.status_code, taken.status_code) == (422, 200)
    [detail] = (await refused.get_json())["error"]["details"]
    assert detail["path"] == "runs[1].timestamp"
    assert detail["message"].startswith("must not be before 20")

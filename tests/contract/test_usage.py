"""GET /api/usage, sentence by sentence of the contract."""

import csv
import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import start_of_day, system_clock
from runtally.db.database import Database
from runtally.usage.groups import rows as group_rows
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app

SUMS = {
    "runs",
    "errors",
    "timeouts",
    "unpriced",
    "withoutUsage",
    "costUSD",
    "inputTokens",
    "outputTokens",
    "cachedInputTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "cacheSavingsUSD",
    "p50LatencyMs",
    "p95LatencyMs",
}


@pytest.fixture
async def reading_key(database: Database, project_id: str) -> str:
    """A key that reads metrics and runs, and so sees people's names."""
    scopes = [Scope.METRICS_READ, Scope.RUNS_READ]
    async with database.session() as session:
        return issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes).secret


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def ask(client: httpx.AsyncClient, key: str, query: Mapping[str, Any] | None = None) -> httpx.Response:
    return await client.get("/api/usage", params=query or {}, headers=bearer(key))


async def read(client: httpx.AsyncClient, key: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer, with its numbers as exact decimals."""
    response = await ask(client, key, query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = json.loads(response.text, parse_float=Decimal)
    return body


async def send(client: httpx.AsyncClient, project_id: str, *runs: dict[str, Any]) -> None:
    sent = {"projectId": project_id, "runs": list(runs)}
    response = await client.post("/api/ingest", json=sent, headers=bearer(INGEST_KEY))
    assert response.status_code == 200, response.text


@pytest.fixture
async def near(database_url: str, database: Database) -> AsyncIterator[httpx.AsyncClient]:  # It has prices.
    """Of an application in this process, whose limits a test can change."""
    app = create_app(settings_for(database_url))
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # Quart is more exact about what it is told.
    async with app.test_app(), httpx.AsyncClient(transport=transport, base_url="http://runtally") as client:
        yield client


async def test_the_answer_has_the_contracts_fields(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    yesterday = start_of_day(system_clock()) - timedelta(days=1)
    start, end, noon = (
        (yesterday + timedelta(hours=hours)).isoformat().replace("+00:00", "Z") for hours in (0, 24, 12)
    )
    runs = (make_run(timestamp=noon, metadata={"feature": "search"}), make_run(timestamp=noon, status="error"))
    await send(client, project_id, *runs)

    asked = {"groupBy": "metadata.feature", "start": start, "end": end, "bucketWidth": "1d"}
    body = await read(client, metrics_key, asked)

    search = {
        "group": {"metadata.feature": "search"},
        "runs": 1,
        "errors": 0,
        "timeouts": 0,
        "unpriced": 0,
        "withoutUsage": 0,
        "costUSD": Decimal("0.0105"),
        "inputTokens": 1000,
        "outputTokens": 500,
        "cachedInputTokens": 0,
        "cacheWriteTokens": 0,
        "reasoningTokens": 0,
        "cacheSavingsUSD": 0,
        "p50LatencyMs": 800,
        "p95LatencyMs": 800,
    }
    none = search | {"group": {"metadata.feature": None}, "errors": 1}
    # Of runs without a feature the latencies are what is left of all, which are in bins.
    for groups_of in (body["totals"], body["buckets"][0]["groups"]):
        for one in groups_of:
            assert all(abs(one[name] - 800) <= 8 for name in ("p50LatencyMs", "p95LatencyMs"))
            one.update(p50LatencyMs=800, p95LatencyMs=800)
    assert body == {
        "ok": True,
        "start": start,
        "end": end,
        "bucketWidth": "1d",
        "groupBy": ["metadata.feature"],
        "buckets": [{"start": start, "end": end, "groups": [search, none]}],
        "totals": [search, none],
        "hasMore": False,
        "nextPage": None,
    }


async def test_runs_of_priced_models_that_report_no_usage_are_counted_in_every_group(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    nothing = make_run(inputTokens=None, outputTokens=None, metadata={"feature": "stream"})
    await send(
        client,
        project_id,
        nothing,
        nothing,
        # What was used is known, or the model has no price.
        nothing | {"inputTokens": 0, "outputTokens": 0},
        nothing | {"units": {"webSearch": 1}},
        nothing | {"costUSD": 0.5},
        nothing | {"model": "unheard-of"},
        make_run(),
    )

    for asked in (
        {},
        {"groupBy": "metadata.feature"},
        {"groupBy": "model"},
        {"groupBy": "status", "model": "acme-large"},
    ):
        body = await read(client, metrics_key, asked)
        assert sum(one["withoutUsage"] for one in body["totals"]) == 2
    answer = await ask(client, metrics_key, {"format": "csv", "groupBy": "metadata.feature"})
    assert sum(int(row["withoutUsage"]) for row in csv.DictReader(StringIO(answer.text))) == 2
    [total] = (await read(client, metrics_key))["totals"]
    assert (total["unpriced"], total["costUSD"]) == (1, Decimal("0.5105"))


async def test_without_group_by_there_is_one_group_also_where_there_are_no_runs(
    client: httpx.AsyncClient, metrics_key: str
) -> None:
    body = await read(client, metrics_key)

    assert len(body["buckets"]) == 7
    nothing: dict[str, Any] = {"group": {}} | dict.fromkeys(SUMS, 0)
    assert body["totals"] == [nothing]
    assert all(bucket["groups"] == [nothing] for bucket in body["buckets"])


@pytest.mark.parametrize(
    ("query", "width", "count"),
    [
        ({}, "1d", 7),
        ({"range": "24h"}, "1h", 24),
        ({"range": "24h", "bucketWidth": "15m"}, "15m", 96),
        ({"range": "7d", "bucketWidth": "1h"}, "1h", 168),
        ({"range": "30d", "bucketWidth": "6h"}, "6h", 120),
        ({"range": "30d"}, "1d", 30),
        ({"range": "90d"}, "1d", 90),
        ({"range": "today"}, "1h", 24),
        ({"range": "yesterday", "bucketWidth": "1d"}, "1d", 1),
        ({"range": "last-month", "bucketWidth": "1mo"}, "1mo", 1),
        ({"range": "this-month", "bucketWidth": "1mo"}, "1mo", 1),
        ({"start": "2026-01-01", "end": "2026-02-01T00:00:00Z", "bucketWidth": "1w"}, "1w", 5),
        ({"start": "2025-11-15T12:00:00+01:00", "end": "2026-02-01", "bucketWidth": "1mo"}, "1mo", 3),
    ],
)
async def test_a_time_is_in_buckets_that_are_aligned_and_leave_nothing_out(
    client: httpx.AsyncClient, metrics_key: str, query: dict[str, str], width: str, count: int
) -> None:
    body = await read(client, metrics_key, query)

    buckets = body["buckets"]
    assert (body["bucketWidth"], len(buckets)) == (width, count)
    assert [one["end"] for one in buckets[:-1]] == [one["start"] for one in buckets[1:]]
    assert (buckets[0]["start"], buckets[-1]["end"]) == (body["start"], body["end"])
    starts = [datetime.fromisoformat(one["start"]) for one in buckets[1:]]
    if width == "1w":
        assert {one.weekday() for one in starts} == {0}
    if width == "1mo":
        assert {one.day for one in starts} <= {1}
    assert all((one.second, one.minute % 15) == (0, 0) for one in starts)


async def test_start_counts_and_end_does_not(client: httpx.AsyncClient, project_id: str, metrics_key: str) -> None:
    at = start_of_day(system_clock()) - timedelta(days=2)
    await send(client, project_id, *(make_run(timestamp=(at + timedelta(hours=one)).isoformat()) for one in range(3)))

    body = await read(client, metrics_key, {"start": at.isoformat(), "end": (at + timedelta(hours=2)).isoformat()})

    assert body["totals"][0]["runs"] == 2


DIMENSIONS = {
    "provider": ("provider", "acme"),
    "model": ("model", "acme-large"),
    "status": ("status", "error"),
    "errorCode": ("errorCode", "rate_limit"),
    "experiment": ("experimentId", "x"),
    "serviceTier": ("serviceTier", "batch"),
    "region": ("region", "us"),
    "trace": ("traceId", "t-1"),
    "session": ("sessionId", "s-1"),
    "user": ("userId", "ann"),
}


@pytest.mark.parametrize("name", DIMENSIONS)
async def test_any_dimension_groups_and_filters_and_runs_without_it_are_under_null(
    client: httpx.AsyncClient, project_id: str, reading_key: str, name: str
) -> None:
    field, value = DIMENSIONS[name]
    other = make_run(provider="bolt", model="m")
    await send(client, project_id, make_run(**{field: value}), make_run(**{field: value}), other)

    grouped = await read(client, reading_key, {"groupBy": name})
    kept = await read(client, reading_key, {name: value})

    runs = {one["group"][name]: one["runs"] for one in grouped["totals"]}
    without = {"provider": "bolt", "model": "m", "status": "success"}.get(name)
    assert runs == {value: 2, without: 1}
    assert kept["totals"][0]["runs"] == 2


@pytest.mark.parametrize("name", ["metadata.env", "metadata.environment", "metadata.userId", "metadata.session_id"])
async def test_groups_have_the_name_of_their_dimension_as_the_query_spells_it(
    client: httpx.AsyncClient, project_id: str, reading_key: str, name: str
) -> None:
    await send(client, project_id, make_run(userId="a", sessionId="a", metadata={"environment": "a"}))

    body = await read(client, reading_key, {"groupBy": [name, "model"]})
    file = await ask(client, reading_key, {"groupBy": [name, "model"], "format": "csv"})

    assert body["groupBy"] == [name, "model"]
    assert [one["group"][name] for one in body["totals"]] == ["a"]
    assert [row[name] for row in csv.DictReader(StringIO(file.text))] == ["a"]


async def test_keys_are_told_by_id_and_named(
    client: httpx.AsyncClient, database: Database, project_id: str, metrics_key: str
) -> None:
    async with database.session() as session:
        issued = issue(
            session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.RUNS_WRITE], name="Nightly build"
        )
    await client.post("/api/ingest", json={"runs": [make_run()]}, headers=bearer(issued.secret))
    await send(client, project_id, make_run(), make_run())

    body = await read(client, metrics_key, {"groupBy": "key"})

    by_name = {body["keyNames"][one["group"]["key"]]: one["runs"] for one in body["totals"]}
    assert by_name["Nightly build"] == 1
    assert len(by_name) == 2
    [own] = [id_ for id_, name in body["keyNames"].items() if name == "Nightly build"]
    assert (await read(client, metrics_key, {"key": own}))["totals"][0]["runs"] == 1


async def test_with_tags_a_run_is_in_each_of_its_tags_and_the_answer_says_so(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await send(client, project_id, make_run(tags=["a", "b"]), make_run(tags=["b"]), make_run())

    body = await read(client, metrics_key, {"groupBy": "tags"})

    assert {one["group"]["tags"]: one["runs"] for one in body["totals"]} == {"a": 1, "b": 2, None: 1}
    assert body["overlapping"] is True
    assert (await read(client, metrics_key, {"tags": "b"}))["totals"][0]["runs"] == 2


async def test_totals_over_groups_equal_the_total_without_group_by_to_the_last_digit(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    runs = [
        make_run(
            provider=f"provider-{number % 3}",
            model=f"model-{number % 7}",
            costUSD=number / 7,
            status=("success", "error", "timeout")[number % 3],
            metadata={"feature": f"f{number % 11}", "plan": f"p{number % 2}"} if number % 5 else {},
            timestamp=(datetime.now(UTC) - timedelta(hours=number)).isoformat(),
        )
        for number in range(100)
    ]
    await send(client, project_id, *runs)
    whole = await read(client, metrics_key)

    for by in (
        ["metadata.feature"],
        ["model", "metadata.feature"],
        ["provider", "status"],
        ["metadata.plan", "metadata.feature"],
    ):
        for limit in (1, 3, 1000):
            body = await read(client, metrics_key, {"groupBy": by, "limit": limit})
            for name in SUMS - {"p50LatencyMs", "p95LatencyMs"}:
                expected = whole["totals"][0][name]
                assert sum(one[name] for one in body["totals"]) == expected
                cells = [one[name] for bucket in body["buckets"] for one in bucket["groups"]]
                assert sum(cells) == expected
            assert len(body["totals"]) <= limit + 1


async def test_the_rest_beyond_the_limit_is_one_group(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await send(client, project_id, *(make_run(model=f"m{number}", costUSD=number) for number in range(5)))

    body = await read(client, metrics_key, {"groupBy": "model", "limit": 2})

    assert [(one["group"]["model"], one["costUSD"]) for one in body["totals"]] == [("m4", 4), ("m3", 3), ("(other)", 3)]


async def test_a_value_that_is_called_as_the_rest_belongs_to_the_rest(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    features = ["(other)", "search", "chat", "chat"]
    await send(client, project_id, *(make_run(metadata={"feature": one}) for one in features))

    for limit, runs in ((1, {"chat": 2, "(other)": 2}), (50, {"chat": 2, "search": 1, "(other)": 1})):
        body = await read(client, metrics_key, {"groupBy": "metadata.feature", "limit": limit})
        assert [(one["group"]["metadata.feature"], one["runs"]) for one in body["totals"]] == list(runs.items())
    kept = await read(client, metrics_key, {"metadata.feature": "(other)"})
    assert kept["totals"][0]["runs"] == 1


async def test_a_filter_by_any_group_of_an_answer_keeps_the_runs_of_that_group(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    features = ["search", " search ", " search ", "  ", "  ", "  "]
    await send(client, project_id, *(make_run(metadata={"feature": one, "own": one}) for one in features))
    await send(client, project_id, make_run(errorCode=" 429 ", metadata={}), make_run(errorCode="429", metadata={}))

    for name in ("metadata.feature", "metadata.own", "errorCode"):
        body = await read(client, metrics_key, {"groupBy": name})
        runs = {one["group"][name]: one["runs"] for one in body["totals"] if one["group"][name] is not None}
        assert runs == ({"429": 1, " 429 ": 1} if name == "errorCode" else {"  ": 3, " search ": 2, "search": 1})
        for value, count in runs.items():
            kept = await read(client, metrics_key, {name: value})
            assert kept["totals"][0]["runs"] == count


async def test_pages_have_all_buckets_once_and_the_same_totals(
    near: httpx.AsyncClient, project_id: str, metrics_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.usage.PAGE_ROWS", 5)
    await send(near, project_id, make_run(), make_run(provider="bolt"))
    query: dict[str, Any] = {"range": "30d", "groupBy": "provider"}
    whole = await read(near, metrics_key, query | {"page": "1"})
    pages = [whole]
    while pages[-1]["hasMore"]:
        pages.append(await read(near, metrics_key, query | {"page": pages[-1]["nextPage"]}))

    starts = [bucket["start"] for page in pages for bucket in page["buckets"]]
    assert len(pages) == 15
    assert len(starts) == len(set(starts)) == 30
    assert starts == sorted(starts)
    assert all(page["totals"] == whole["totals"] for page in pages)
    assert pages[-1]["nextPage"] is None


async def test_csv_has_a_row_for_each_group_of_a_bucket_and_its_next_page_in_a_header(
    near: httpx.AsyncClient, project_id: str, metrics_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(near, project_id, make_run(metadata={"feature": "=1+1"}), make_run())
    query = {"groupBy": "metadata.feature", "range": "30d", "format": "csv"}

    response = await ask(near, metrics_key, query)

    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert "link" not in response.headers
    rows = list(csv.DictReader(StringIO(response.text)))
    assert [(row["metadata.feature"], row["runs"], row["costUSD"]) for row in rows] == [
        ("'=1+1", "1", "0.0105"),
        ("", "1", "0.0105"),
    ]
    assert set(rows[0]) == SUMS | {"start", "end", "metadata.feature"}
    monkeypatch.setattr("api.usage.PAGE_ROWS", 1)
    paged = await ask(near, metrics_key, query)
    url, _, relation = paged.headers["link"].partition(";")
    assert relation.strip() == 'rel="next"'
    following = await near.get(url.strip("<>"), headers=bearer(metrics_key))
    assert following.status_code == 200
    assert following.text.startswith("start,end,metadata.feature,runs")


async def test_cache_savings_are_exact_by_the_price_in_force(
    client: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    cached = make_run(model="acme-cached", cachedInputTokens=400, cacheWriteTokens=100, metadata={"feature": "f"})
    await send(client, project_id, cached, cached, make_run())

    for query in ({}, {"groupBy": "metadata.feature"}, {"groupBy": "model"}, {"groupBy": "status"}):
        totals = (await read(client, metrics_key, query))["totals"]
        # 400 tokens for $0.3 instead of $3 a million, and 100 for $3.75.
        assert sum(one["cacheSavingsUSD"] for one in totals) == 2 * (Decimal("0.00108") - Decimal("0.000075"))


async def test_a_key_of_metadata_beyond_what_may_be_read_is_refused_with_how_to_track_it(
    near: httpx.AsyncClient, project_id: str, metrics_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(near, project_id, *(make_run(metadata={"plan": "pro", "feature": "f"}) for _ in range(4)))
    assert (await read(near, metrics_key, {"groupBy": "metadata.plan"}))["totals"][0]["runs"] == 4
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 3)

    response = await ask(near, metrics_key, {"groupBy": "metadata.plan"})

    assert_error(response, 422, "dimension_not_tracked")
    assert "track the key in the settings of the project" in response.json()["error"]["message"]
    tracked = await read(near, metrics_key, {"groupBy": "metadata.feature"})
    assert tracked["totals"][0]["runs"] == 4


async def test_percentiles_that_would_take_too_many_runs_are_null_and_sums_are_not(
    near: httpx.AsyncClient, project_id: str, metrics_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(near, project_id, *(make_run() for _ in range(4)))
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 3)

    [of_model] = (await read(near, metrics_key, {"groupBy": "model"}))["totals"]

    assert (of_model["runs"], of_model["p50LatencyMs"], of_model["p95LatencyMs"]) == (4, None, None)


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ({"interval": "1h"}, {"interval"}),
        ({"group_by": "model"}, {"query"}),
        ({"metadata.": "x"}, {"metadata.<key>"}),
        ({"groupBy": "colour"}, {"groupBy"}),
        ({"groupBy": ["model", "provider", "status"]}, {"groupBy"}),
        ({"groupBy": ["model", "model"]}, {"groupBy"}),
        ({"bucketWidth": "2h"}, {"bucketWidth"}),
        ({"limit": "0"}, {"limit"}),
        ({"limit": "1001"}, {"limit"}),
        ({"page": "last"}, {"page"}),
        ({"format": "xml"}, {"format"}),
        ({"status": "fine"}, {"status"}),
        ({"key": "rt_secret"}, {"key"}),
        ({"start": "2026-01-01"}, {"end"}),
        ({"start": "2026-01-02", "end": "2026-01-01"}, {"end"}),
        ({"start": "soon", "end": "2026-01-01"}, {"start"}),
        ({"start": "2026-01-01", "end": "2026-01-02", "range": "7d"}, {"range"}),
        ({"range": "90d", "bucketWidth": "15m"}, {"bucketWidth"}),
        ({"model": ["a", "b"]}, {"model"}),
        ({"model": "\0"}, {"model"}),
    ],
)
async def test_what_cannot_be_read_is_named_and_never_repeated(
    client: httpx.AsyncClient, metrics_key: str, query: dict[str, Any], paths: set[str]
) -> None:
    assert_error(await ask(client, metrics_key, query), 422, "invalid_payload", paths=paths, never=["rt_secret"])


async def test_a_range_that_there_is_not_is_the_error_of_metrics(client: httpx.AsyncClient, metrics_key: str) -> None:
    assert_error(await ask(client, metrics_key, {"range": "8d"}), 400, "invalid_range")


async def test_keys_and_scopes_are_those_of_metrics(
    near: httpx.AsyncClient, database: Database, project_id: str, metrics_key: str, admin_key: str
) -> None:
    await send(near, project_id, make_run())
    async with database.session() as session:
        other = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.RUNS_READ]).secret

    assert_error(await near.get("/api/usage"), 401, "missing_key")
    assert_error(await ask(near, "rt_wrong"), 401, "invalid_key")
    assert_error(await ask(near, other), 403, "forbidden")
    assert_error(await ask(near, metrics_key, {"projectId": "another"}), 403, "forbidden")
    assert_error(await ask(near, metrics_key, {"aggregate": "1"}), 403, "forbidden")
    assert_error(await ask(near, admin_key), 400, "project_not_inferred")
    of_project = await read(near, admin_key, {"projectId": project_id})
    assert of_project["totals"][0]["runs"] == 1
    assert (await read(near, admin_key, {"aggregate": "1"}))["totals"][0]["runs"] >= 1

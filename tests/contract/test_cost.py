"""The cost rules of the contract, over HTTP."""

from decimal import Decimal
from typing import Any

import httpx
import pytest

from runtally.db.database import Database
from tests.factories import make_run

CASES: list[tuple[str, dict[str, Any], tuple[str | None, str | None, bool | None]]] = [
    ("a known price computes the cost", {}, ("0.0105", "catalog", False)),
    ("a sent cost is not believed where there is a price", {"costUSD": 99}, ("0.0105", "catalog", False)),
    (
        "what the client says of its cost is never believed",
        {"costSource": "provider", "costEstimated": True},
        ("0.0105", "catalog", False),
    ),
    ("an estimated entry makes an estimated cost", {"model": "acme-guess"}, ("0.0105", "catalog", True)),
    (
        "the price at the run's time is used: before",
        {"model": "acme-old", "timestamp": "2025-12-31T23:59:59Z"},
        ("0.0105", "catalog", False),
    ),
    (
        "the price at the run's time is used: after",
        {"model": "acme-old", "timestamp": "2026-01-01T00:00:00Z"},
        ("0.0085", "catalog", False),
    ),
    (
        "cached tokens are part of the input",
        {"model": "acme-cached", "cachedInputTokens": 400},
        ("0.00942", "catalog", False),
    ),
    (
        "cache writes are part of the input",
        {"model": "acme-cached", "cacheWriteTokens": 400},
        ("0.0108", "catalog", False),
    ),
    (
        "writing for an hour has a price of its own",
        {"model": "acme-varied", "cacheWriteTokens": 500, "units": {"cacheWrite1h": 400}},
        ("0.011775", "catalog", False),
    ),
    (
        "searches are charged beside the tokens",
        {"model": "acme-varied", "units": {"webSearch": 2}},
        ("0.0305", "catalog", False),
    ),
    (
        "a service tier and a region change the price of tokens",
        {"model": "acme-varied", "serviceTier": "BATCH", "region": "us", "units": {"webSearch": 2}},
        ("0.025775", "catalog", False),
    ),
    (
        "a service tier without a price makes an estimate",
        {"model": "acme-varied", "serviceTier": "priority"},
        ("0.0105", "catalog", True),
    ),
    (
        "reasoning tokens are part of the output",
        {"model": "acme-cached", "reasoningTokens": 100},
        ("0.011", "catalog", False),
    ),
    (
        "audio tokens are part of input and output",
        {"model": "acme-cached", "audioInputTokens": 400, "audioOutputTokens": 100},
        ("0.0318", "catalog", False),
    ),
    (
        "parts are read from OpenAI's usage, too",
        {
            "model": "acme-cached",
            "metadata": {
                "usage": {
                    "prompt_tokens_details": {"audio_tokens": 400, "cached_tokens": 100},
                    "completion_tokens_details": {"audio_tokens": 100, "reasoning_tokens": 100},
                }
            },
        },
        ("0.03203", "catalog", False),
    ),
    (
        "a field wins over the usage",
        {
            "model": "acme-cached",
            "cachedInputTokens": 0,
            "metadata": {"usage": {"prompt_tokens_details": {"cached_tokens": 9}}},
        },
        ("0.0105", "catalog", False),
    ),
    (
        "cached tokens cost as input where the entry has no price for them",
        {"cachedInputTokens": 400},
        ("0.0105", "catalog", False),
    ),
    (
        "no price: a sent cost is kept as an estimate",
        {"model": "unheard-of", "costUSD": 0.25},
        ("0.25", "estimated", True),
    ),
    ("no price and no cost: unknown, not 0", {"model": "unheard-of"}, (None, None, None)),
    ("no price and a cost of 0: unknown", {"model": "unheard-of", "costUSD": 0}, (None, None, None)),
    (
        "the aggregator's cost is trusted",
        {"provider": "openrouter", "model": "acme/routed", "costUSD": 0.5},
        ("0.5", "provider", False),
    ),
    (
        "whatever the case",
        {"provider": "OpenRouter", "model": "acme/routed", "costUSD": 0.5},
        ("0.5", "provider", False),
    ),
    (
        "its usage.total_cost is trusted",
        {"provider": "openrouter", "model": "acme/routed", "metadata": {"usage": {"total_cost": 0.4, "cost": 0.3}}},
        ("0.4", "provider", False),
    ),
    (
        "its usage.cost is trusted",
        {"provider": "openrouter", "model": "acme/routed", "costUSD": 0, "metadata": {"usage": {"cost": 0.3}}},
        ("0.3", "provider", False),
    ),
    (
        "costUSD wins over the metadata",
        {"provider": "openrouter", "model": "acme/routed", "costUSD": 0.5, "metadata": {"usage": {"total_cost": 0.4}}},
        ("0.5", "provider", False),
    ),
    (
        "without a cost the aggregator's models have prices too",
        {"provider": "openrouter", "model": "acme/routed"},
        ("0.0095", "catalog", False),
    ),
    (
        "with a key of one's own it is the fee and what the upstream charges",
        {
            "provider": "openrouter",
            "model": "anthropic/claude-sonnet-4",
            "costUSD": 0.001803975,
            "metadata": {
                "usage": {
                    "cost": 0.001803975,
                    "is_byok": True,
                    "cost_details": {"upstream_inference_cost": 0.0360795},
                }
            },
        },
        ("0.037883475", "provider", False),
    ),
    (
        "a free model that cost 0 cost 0",
        {"provider": "openrouter", "model": "acme/routed:free", "metadata": {"usage": {"cost": 0}}},
        ("0", "provider", False),
    ),
    (
        "and one whose client says so too",
        {"provider": "openrouter", "model": "acme/routed:free", "costUSD": 0},
        ("0", "provider", False),
    ),
    (
        "metadata is no cost for another provider",
        {"metadata": {"usage": {"total_cost": 0.4}}},
        ("0.0105", "catalog", False),
    ),
]


@pytest.mark.parametrize(("fields", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_cost(
    client: httpx.AsyncClient,
    database: Database,
    project_id: str,
    fields: dict[str, Any],
    expected: tuple[str | None, str | None, bool | None],
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, **fields))

    async with database.connection() as connection:
        run = await connection.fetchrow("SELECT * FROM runs WHERE project_id = $1", project_id)
    assert run is not None
    cost, source, estimated = expected
    assert run["cost_usd"] == (None if cost is None else Decimal(cost))
    assert (run["cost_source"], run["cost_estimated"]) == (source, estimated)
    assert (run["price_entry_id"] is not None) == (source == "catalog")


async def test_the_reported_cost_is_stored_as_well_as_the_computed_one(
    client: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    await client.post("/api/ingest", json=make_run(projectId=project_id, costUSD=0.022080000000000002))

    async with database.connection() as connection:
        run = await connection.fetchrow("SELECT * FROM runs WHERE project_id = $1", project_id)
    assert run is not None
    assert run["reported_cost_usd"] == Decimal("0.02208")
    assert run["cost_usd"] == Decimal("0.0105")

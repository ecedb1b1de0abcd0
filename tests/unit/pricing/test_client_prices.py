"""What `runtally-agents` reports without a server is what the server would store, to the last digit."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import price_for_run, total_usd
from runtally.pricing.draft import CatalogueEntry
from runtally.units import Usage
from runtally_client.agent_files.prices import Prices, of_file
from runtally_client.agent_files.report import summed

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
MODELS = (
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-5.1-codex"),
    ("openai", "gpt-5.6-sol"),
    ("google", "gemini-2.5-pro"),
    ("google", "gemini-2.5-flash"),
    ("mistral", "devstral-medium-latest"),
    ("x-ai", "grok-4.5"),
)
MIXES: tuple[dict[str, Any], ...] = (
    {"inputTokens": 21_942, "outputTokens": 704},
    {"inputTokens": 21_942, "outputTokens": 704, "cachedInputTokens": 20_111, "cacheWriteTokens": 812},
    {
        "inputTokens": 21_942,
        "outputTokens": 704,
        "cachedInputTokens": 20_111,
        "cacheWriteTokens": 812,
        "reasoningTokens": 212,
        "units": {"cacheWrite1h": 504, "webSearch": 2},
    },
    {"inputTokens": 300_007, "outputTokens": 11, "cachedInputTokens": 200_003},
)
PLACES = ((None, None), ("batch", None), (None, "us"), ("batch", "us"))


@pytest.fixture(scope="module")
def prices(catalogue: list[CatalogueEntry]) -> Prices:
    return Prices(msgspec.json.decode(msgspec.json.encode(entry)) for entry in catalogue)


@pytest.mark.parametrize(("provider", "model"), MODELS, ids=[model for _, model in MODELS])
def test_a_calls_cost_is_the_servers(provider: str, model: str, prices: Prices, catalogue_book: PriceBook) -> None:
    for mix, (tier, region) in product(MIXES, PLACES):
        run = {"provider": provider, "model": model, "timestamp": "2026-11-20T10:00:00.000Z", **mix}
        usage = Usage(
            mix["inputTokens"],
            mix["outputTokens"],
            mix.get("cachedInputTokens"),
            mix.get("cacheWriteTokens"),
            mix.get("reasoningTokens"),
            units=mix.get("units"),
        )
        price = catalogue_book.price_for(provider, model, AT, mix["inputTokens"])
        assert price is not None
        expected = total_usd(usage, price_for_run(price, tier, region, AT, mix["inputTokens"]))

        assert prices.cost({**run, "serviceTier": tier, "region": region}) == expected


def test_calls_that_are_summed_cost_what_they_cost_one_by_one(prices: Prices) -> None:
    runs = [
        {"provider": provider, "model": model, "status": "success", "timestamp": "2026-11-20T10:00:00.000Z", **mix}
        for (provider, model), mix, _ in product(MODELS, MIXES, range(3))
    ]

    groups, total = summed(runs, "model", prices)

    costs = [prices.cost(run) for run in runs]
    assert total.cost == sum(cost for cost in costs if cost is not None)
    assert total.unpriced == costs.count(None)
    assert {name: sums.calls for name, sums in groups.items()} == {model: 3 * len(MIXES) for _, model in MODELS}


def test_a_model_without_a_price_has_no_cost(prices: Prices) -> None:
    run = {"provider": "anthropic", "model": "unheard-of", "timestamp": "2026-11-20T10:00:00.000Z", **MIXES[0]}

    assert prices.cost(run) is None


def test_a_file_of_prices_is_read_and_any_other_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        "id,provider,model,aliases,above_input_tokens,input_per_million,output_per_million\n1,acme,Large,big huge,,2,10\n"
    )
    run = {"provider": "acme", "model": "huge", "timestamp": "2026-11-20T10:00:00.000Z", **MIXES[0]}
    assert of_file(path).cost(run) == (Decimal(21_942) * 2 + Decimal(704) * 10) / 1_000_000

    for text in ("", "a,b\n1,2\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match="no prices"):
            of_file(path)

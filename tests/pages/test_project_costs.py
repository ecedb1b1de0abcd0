"""How far costs can be trusted, and what they would have been."""

import re
from collections import Counter
from typing import Any

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import SHARED_KEY_NAME
from runtally.clock import system_clock
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price
from runtally.runs import cost_lines, what_if
from runtally.usage.totals import Totals
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn
from tests.pages.looking import Outline, html_of, text_of
from webapp.pages.panel.panel import estimates_of
from webapp.pages.project.costs import MAX_ALTERNATIVES


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        (Totals(runs=4), ""),
        (Totals(runs=4, unpriced=1), ""),
        (Totals(runs=4, estimated=1), "The cost of 25.0% of the runs is estimated."),
        (Totals(runs=4, unpriced=2, estimated=2), "All of the cost is estimated."),
        (Totals(runs=1, unpriced=1), ""),
    ],
)
def test_a_total_says_how_much_of_it_is_estimated(totals: Totals, words: str) -> None:
    assert estimates_of(totals) == words


async def test_the_project_page_says_that_its_cost_is_a_minimum_and_partly_estimated(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(), make_run(model="acme-guess"), make_run(model="nobody-knows"), make_run())

    html = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "The cost of 33.3% of the runs is estimated." in html
    assert "or more" in html


async def test_what_if_begins_with_what_each_model_in_use_would_have_cost_for_all_runs(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        make_run(inputTokens=1_000_000, outputTokens=0),
        make_run(provider="openrouter", model="acme/routed", inputTokens=500_000, outputTokens=100_000),
    )

    html = await html_of(reader, f"/projects/{project_id}/costs")

    text = text_of(html)
    # A million and a half at $2 and 100,000 at $15; or at $3 and $15.
    assert "Actual cost $5.50 Cheapest model in use $4.50 acme/routed saves $1.00" in text
    assert (
        "acme/routed openrouter $4.50 \u2212$1.00 (↓18.2%) Actual cost $5.50 \u2013 acme-large acme $6.00 +$0.50 (↑9.1%)"
        in text
    )
    links = [link["href"] for link in Outline(html).all("a")]
    assert f"/projects/{project_id}/costs?provider=acme&model=acme-large" in links


async def test_what_if_asks_for_no_more_prices_where_a_model_has_none(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post(*(make_run(provider="openrouter", model=f"own-{number}", costUSD=2) for number in range(40)))
    asked, price_for = Counter[str](), PriceBook.price_for

    def counted(book: PriceBook, provider: str, model: str, *of: Any) -> Price | None:  # noqa: ANN401  # Passed on.
        asked[model] += provider == "openrouter"
        return price_for(book, provider, model, *of)

    monkeypatch.setattr(PriceBook, "price_for", counted)

    text = text_of(await html_of(reader, f"/projects/{project_id}/costs"))

    assert "Actual cost" not in text
    # Each of the models for all runs is tried, and not any further.
    assert set(asked.values()) == {1}
    assert asked.total() == MAX_ALTERNATIVES


async def test_what_if_leaves_models_without_a_price_out_of_both_costs(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        make_run(inputTokens=1_000_000, outputTokens=0),
        make_run(provider="openrouter", model="acme/routed", inputTokens=500_000, outputTokens=100_000),
        make_run(model="nobody-knows", inputTokens=10_000_000, outputTokens=0),
    )

    text = text_of(await html_of(reader, f"/projects/{project_id}/costs"))

    # Ten million more would have cost $20 on the cheapest, and nothing is known of what they did cost.
    assert "Actual cost $5.50 Cheapest model in use $4.50 acme/routed saves $1.00" in text
    assert "1 unpriced model left out. A cheaper model" in text


async def test_what_if_computes_each_models_tokens_at_another_models_price(
    reader: Browser, post: Post, project_id: str
) -> None:
    cheap = {"provider": "openrouter", "model": "acme/routed"}
    await post(
        make_run(inputTokens=1_000_000, outputTokens=0),
        make_run(inputTokens=500_000, outputTokens=100_000, **cheap),
        make_run(model="nobody-knows", inputTokens=1_000_000, outputTokens=0),
    )
    url = f"/projects/{project_id}/costs"

    same = text_of(await html_of(reader, f"{url}?at={system_clock():%Y-%m-%d}"))
    moved = text_of(await html_of(reader, f"{url}?provider=acme&model=acme-large"))

    assert "acme-large acme 1 $3.00 $3.00 $0.00" in same
    assert "1 unpriced model left out" in same
    # Half a million tokens at $3 and 100,000 at $15, instead of at $2 and $15.
    assert "acme/routed openrouter 1 $2.50 $3.00 +$0.50 (↑20.0%)" in moved
    assert "nobody-knows acme 1 no price $3.00" in moved


async def test_what_if_adds_up_the_models_beyond_those_that_it_tells_apart(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post(
        make_run(inputTokens=1_000_000, outputTokens=0),
        make_run(provider="openrouter", model="acme/routed", inputTokens=500_000, outputTokens=100_000),
        make_run(model="nobody-knows", inputTokens=1_000_000, outputTokens=0),
    )
    monkeypatch.setattr(what_if, "MAX_MODELS", 1)
    url = f"/projects/{project_id}/costs"

    first = text_of(await html_of(reader, url))
    same = text_of(await html_of(reader, f"{url}?at={system_clock():%Y-%m-%d}"))
    moved = text_of(await html_of(reader, f"{url}?provider=acme&model=acme-large"))

    # All runs with a price count, and acme-large is the one model that they are tried on.
    assert "acme-large acme $6.00 +$0.500 (↑9.1%)" in first
    assert "Actual cost $5.50" in first
    for text in (first, same):
        assert "at least 1 unpriced model left out" in text
    assert "acme-large acme 1 $3.00 $3.00 $0.00" in same
    assert "All others 1 $2.50 $2.50 $0.00" in same
    assert "All others 2 $2.50 $6.00" in moved


async def test_what_if_knows_units_tiers_and_how_long_a_cache_keeps_what_is_written(
    reader: Browser, post: Post, project_id: str
) -> None:
    varied = {"model": "acme-varied", "inputTokens": 1_000_000, "outputTokens": 0}
    await post(
        # 600,000 tokens at $3, and 400,000 kept for an hour at $6.
        make_run(**varied, cacheWriteTokens=400_000, units={"cacheWrite1h": 400_000}),
        # Half of $3, and 100 searches for $1.
        make_run(**varied, serviceTier="batch", units={"webSearch": 100}),
        make_run(inputTokens=1_000_000, outputTokens=0),
    )
    url = f"/projects/{project_id}/costs"

    async def asked(query: str) -> str:
        return text_of(await html_of(reader, f"{url}?{query}"))

    same, batch = await asked(f"at={system_clock():%Y-%m-%d}"), await asked("tier=Batch")
    short, moved = await asked("writes=5m"), await asked("provider=acme&model=acme-large")

    assert "acme-varied acme 2 $6.70 $6.70 $0.00" in same
    assert "Computed from the runs with their tiers, regions, hours and units." in same
    assert "acme-varied acme 2 $6.70 $4.60 \u2212$2.10 (↓31.3%)" in batch
    assert "1 unpriced model left out." in batch
    assert "acme-varied acme 2 $6.70 $5.80 \u2212$0.90" in short
    assert "acme-varied acme 2 $6.70 $6.00" in moved
    assert "no price there, and left out: Web searches." in moved
    assert 'id="writes-error"' in await html_of(reader, f"{url}?writes=2h", 422)


async def test_what_if_reads_sums_of_tokens_where_the_runs_are_too_many(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    varied = {"model": "acme-varied", "inputTokens": 1_000_000, "outputTokens": 0}
    await post(make_run(**varied, serviceTier="batch", units={"webSearch": 100}))
    monkeypatch.setattr(cost_lines, "MAX_RUNS_READ", 0)

    text = text_of(await html_of(reader, f"/projects/{project_id}/costs?tier=batch"))

    assert "acme-varied acme 1 $2.50 $1.50" in text
    assert "Estimated from token totals at base-tier prices, without further units." in text


async def test_what_if_refuses_half_a_model_and_a_time_that_is_none(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/costs"

    assert 'id="model-error"' in await html_of(reader, f"{url}?provider=acme", 422)
    assert 'id="at-error"' in await html_of(reader, f"{url}?at=soon", 422)
    assert "No price for this model." in await html_of(reader, f"{url}?provider=acme&model=none-such")


async def test_reported_and_computed_cost_are_compared_by_model_and_client(
    reader: Browser, post: Post, project_id: str
) -> None:
    run = make_run(inputTokens=1_000_000, outputTokens=0)
    trusted = make_run(provider="openrouter", model="acme/routed", costUSD=9)
    agent = run | {"costUSD": 3.0, "metadata": {"agent": "claude-code"}}
    await post(run | {"costUSD": 2.0}, run | {"costUSD": 4.5}, run, trusted, agent)

    html = text_of(await html_of(reader, f"/projects/{project_id}/costs"))

    [drift] = re.findall(r"Difference(.*?)Runtally", html)
    rows = drift.split("acme-large acme ")[1:]
    assert [row.strip() for row in rows] == [
        f"{SHARED_KEY_NAME} 2 $6.50 $6.00 \u2212$0.500 (↓7.7%)",
        "claude-code 1 $3.00 $3.00 $0.000",
    ]


async def test_strangers_and_other_projects_see_nothing(
    stranger: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post()
    other = await signed_in(f"{project_id}-other")

    assert (await stranger.get(f"/projects/{project_id}/costs")).status_code == 303
    assert (await other.get(f"/projects/{project_id}/costs")).status_code == 403
    assert (await (await signed_in(project_id)).get(f"/projects/{project_id}/costs")).status_code == 200

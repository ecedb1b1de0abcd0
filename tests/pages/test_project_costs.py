"""How far costs can be trusted, and what they would have been."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.usage.totals import Totals
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn
from tests.pages.looking import Outline, html_of, text_of
from webapp.pages.panel.kpis import coverage_of


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        (Totals(runs=4), "Cost covers all runs; none of it is an estimate."),
        (Totals(runs=4, unpriced=1), "Cost covers 75.0% of the runs; none of it is an estimate."),
        (Totals(runs=4, estimated=1), "Cost covers all runs; 25.0% are estimates."),
        (Totals(runs=4, unpriced=2, estimated=2), "Cost covers 50.0% of the runs; all of it is an estimate."),
        (Totals(runs=10**6, unpriced=1), "Cost covers >99.9% of the runs; none of it is an estimate."),
        (Totals(runs=1, unpriced=1), "No run has a price."),
    ],
)
def test_a_total_says_what_it_covers(totals: Totals, words: str) -> None:
    assert coverage_of(totals) == words


async def test_the_project_page_says_what_its_cost_covers(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(model="acme-guess"), make_run(model="nobody-knows"), make_run())

    html = text_of(await html_of(reader, f"/projects/{project_id}"))

    assert "Cost covers 75.0% of the runs; 33.3% are estimates." in html


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

    same = text_of(await html_of(reader, url))
    moved = text_of(await html_of(reader, f"{url}?provider=acme&model=acme-large"))
    plot = Outline(await html_of(reader, f"{url}?provider=acme&model=acme-large")).by_id("what-if-chart-plot")
    chart = await (await reader.get(str(plot["data-chart-src"]))).get_json()

    assert "acme-large acme 1 $3.00 $3.00 $0.00" in same
    assert "1 model has no price there" in same
    # Half a million tokens at $3 and 100,000 at $15, instead of at $2 and $15.
    assert "acme/routed openrouter 1 $2.50 $3.00 +$0.500 (↑20.0%)" in moved
    assert "nobody-knows acme 1 no price $3.00" in moved
    assert (chart["tips"][-1]["values"], chart["tips"][-1]["previous"]) == (["$5.50"], "$9.00")


async def test_what_if_refuses_half_a_model_and_a_time_that_is_none(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()
    url = f"/projects/{project_id}/costs"

    assert 'id="model-error"' in await html_of(reader, f"{url}?provider=acme", 422)
    assert 'id="at-error"' in await html_of(reader, f"{url}?at=soon", 422)
    assert "No price is known for that." in await html_of(reader, f"{url}?provider=acme&model=none-such")


async def test_reported_and_computed_cost_are_compared_by_model(reader: Browser, post: Post, project_id: str) -> None:
    run = make_run(inputTokens=1_000_000, outputTokens=0)
    trusted = make_run(provider="openrouter", model="acme/routed", costUSD=9)
    await post(run | {"costUSD": 2.0}, run | {"costUSD": 4.5}, run, trusted)

    html = text_of(await html_of(reader, f"/projects/{project_id}/costs"))

    [drift] = re.findall(r"Difference(.*?)Runtally", html)
    assert drift.split() == ["acme-large", "acme", "2", "$6.50", "$6.00", "\u2212$0.500", "(↓7.7%)"]


async def test_strangers_and_other_projects_see_nothing(
    stranger: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post()
    other = await signed_in(f"{project_id}-other")

    assert (await stranger.get(f"/projects/{project_id}/costs")).status_code == 303
    assert (await other.get(f"/projects/{project_id}/costs")).status_code == 403
    assert (await (await signed_in(project_id)).get(f"/projects/{project_id}/costs")).status_code == 200

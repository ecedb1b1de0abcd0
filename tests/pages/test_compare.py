"""Any two sets of a project's runs compared."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import PARTIAL, Outline, html_of, text_of


@pytest.fixture
async def page(post: Post, project_id: str) -> str:
    """A project with two models, of which the second costs more and fails as often, this week and the week before."""
    await post(
        *(
            make_run(
                model=model,
                inputTokens=tokens + number % 5,
                status="error" if number % 10 == 0 else "success",
                metadata={"release": f"r{number % 2}", "session": f"s{number % 35}"},
                timestamp=ago(days=days, minutes=number),
            )
            for model, tokens in (("acme-large", 1_000), ("acme-cached", 9_000))
            for days in (1, 8)
            for number in range(70)
        )
    )
    return f"/projects/{project_id}/compare"


async def test_two_models_are_compared_at_an_address_of_their_own(reader: Browser, page: str) -> None:
    html = await html_of(reader, f"{page}?a.model=acme-large&b.model=acme-cached")

    text = text_of(html)
    assert "acme-large Last 7 days" in text
    assert "Runs No change 70 70 No change" in text
    # The answer comes before the figures: which of them differ by more than chance.
    assert re.search(r"\d clear differences Cost per run \+2\d\d\.\d% Cost per success \+2", text)
    assert re.search(r"Cost per run \+2[\d.]+%: Clear difference \(95%\) \$", text)
    assert "Error rate 0 points: No clear difference" in text
    for name in ("success", "session", "1,000 tokens"):
        assert re.search(rf"Cost per {name} [+\u2212][\d.]+%: Clear difference", text), name
    for name in ("p50 latency", "p95 latency", "Tokens per run", "Cached share of input"):
        assert name in text
    outline = Outline(html)
    options = [one["value"] for one in outline.all("option") if "selected" in one]
    assert options == ["acme-large", "", "acme-cached", ""]
    assert f"{page}?a.model=acme-cached&b.model=acme-large" in [link["href"] for link in outline.all("a")]


async def test_the_tabs_of_a_project_keep_what_a_report_is_grouped_by(
    reader: Browser, page: str, project_id: str
) -> None:
    async def links(query: str) -> set[str | None]:
        html = await html_of(reader, f"/projects/{project_id}?{query}")
        return {link["href"] for link in Outline(html).all("a")}

    assert f"{page}?range=30d&by=metadata.release" in await links("by=metadata.release&range=30d")
    # Neither a comparison nor a table is without groups.
    assert {page, f"/lines?project={project_id}"} <= await links("by=none")
    back = await html_of(reader, f"{page}?by=metadata.release")
    assert f"/projects/{project_id}?by=metadata.release" in {link["href"] for link in Outline(back).all("a")}


async def test_without_sides_the_range_is_compared_with_the_period_before(reader: Browser, page: str) -> None:
    html = await html_of(reader, page)

    text = text_of(html)
    assert "All runs The 7 days before" in text
    assert "No clear difference Chance could explain every difference below." in text
    assert "Runs No change 140 140 No change" in text
    links = [link["href"] or "" for link in Outline(html).all("a")]
    # The other way round it says which side is the period before.
    assert f"{page}?b.range=before" in links
    assert f"{page}?range=30d" in links


async def test_choosing_a_value_compares_one_time_and_the_address_has_only_what_was_chosen(
    reader: Browser, page: str
) -> None:
    form = {"implied": "1", "a.range": "before", "b.range": "", "a.since": "", "a.until": ""}
    models = {"a.model": "acme-large", "b.model": "acme-cached"}

    sent = await reader.get(page, query_string={**form, **models})
    swapped = await reader.get(page, query_string={**form, **models}, headers=PARTIAL)
    times = await reader.get(page, query_string={**models, "a.range": "before"})

    chosen = f"{page}?a.model=acme-large&b.model=acme-cached"
    assert (sent.status_code, sent.headers["Location"]) == (303, chosen)
    assert swapped.headers["HX-Push-Url"] == chosen
    _, answer, figures = text_of(await html_of(reader, chosen)).partition("clear difference")
    assert answer
    assert "The 7 days before" not in figures
    # A period that somebody chose stays.
    assert "acme-large The 7 days before" in text_of(await times.get_data(as_text=True))


async def test_filters_of_the_page_hold_on_both_sides_and_those_of_a_side_on_one(reader: Browser, page: str) -> None:
    url = f"{page}?model=acme-large&by=metadata.release&a.metadata.release=r0&b.metadata.release=r1&b.range=before"

    html = await html_of(reader, url)

    assert "Runs No change 35 35" in text_of(html)
    outline = Outline(html)
    chips = [link["href"] for link in outline.all("a") if link.get("class") == "chip"]
    assert chips == [url.replace("model=acme-large&", "").replace("?by", "?by")]
    assert {"name": "model", "value": "acme-large"}.items() <= next(
        one for one in outline.all("input") if one.get("name") == "model"
    ).items()


async def test_a_side_has_a_time_of_its_own_in_the_readers_zone(reader: Browser, page: str) -> None:
    url = f"{page}?a.since=2026-01-05T00:00&a.until=2026-01-06T00:00&a.zone=Europe/Berlin"

    text = text_of(await html_of(reader, url, headers={"Cookie": "zone=Europe%2FBerlin"}))

    assert "5 Jan 2026" in text
    assert "Unknown One side has no runs." in text


async def test_the_breakdown_compares_the_rows_that_are_ticked(reader: Browser, page: str, project_id: str) -> None:
    breakdown = Outline(await html_of(reader, f"/breakdown?project={project_id}&by=metadata.release&range=30d"))
    ticks = [one["value"] for one in breakdown.all("input") if one.get("name") == "value"]
    form = breakdown.by_id("compare-rows")
    assert sorted(value or "" for value in ticks) == ["r0", "r1"]

    query = "by=metadata.release&range=30d"
    two = text_of(await html_of(reader, f"{form['action']}?{query}&value=r0&value=r1"))
    one = text_of(await html_of(reader, f"{form['action']}?{query}&value=r0"))
    three = text_of(await html_of(reader, f"{form['action']}?{query}&value=r0&value=r1&value=r2"))

    assert "r0 Last 30 days" in two
    assert "r1 Last 30 days" in two
    assert "Remove release r0" in one
    assert "r0 The same weekdays 28 days earlier" in one
    assert "Two are compared at a time" in three
    over_all = Outline(await html_of(reader, "/breakdown"))
    assert "compare-rows" not in over_all.ids()


async def test_the_same_runs_on_both_sides_and_none_at_all_are_said(reader: Browser, page: str) -> None:
    same = text_of(await html_of(reader, f"{page}?a.model=acme-large&b.model=acme-large"))
    none = text_of(await html_of(reader, f"{page}?model=unheard-of"))
    both = text_of(await html_of(reader, f"{page}?b.model=acme-large"))

    assert "Both sides are the same runs." in same
    assert "No runs on either side." in none
    assert "Some runs may be on both sides" in both


async def test_what_an_address_cannot_mean_is_said(reader: Browser, page: str) -> None:
    text = text_of(await html_of(reader, f"{page}?a.status=odd&b.range=1y&b.since=x"))

    assert "The filter status must be one of" in text
    assert "A start must be before its end" in text


async def test_what_an_address_cannot_mean_is_said_of_a_form_with_empty_fields_too(reader: Browser, page: str) -> None:
    text = text_of(await html_of(reader, f"{page}?a.status=odd&b.model="))

    assert "The filter status must be one of" in text


async def test_a_change_from_zero_is_not_explained_by_chance(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        *(
            make_run(model=model, inputTokens=tokens, outputTokens=0, timestamp=ago(minutes=number + 1))
            for model, tokens in (("acme-large", 0), ("acme-cached", 1_000))
            for number in range(40)
        )
    )

    text = text_of(await html_of(reader, f"/projects/{project_id}/compare?a.model=acme-large&b.model=acme-cached"))

    assert "Cost per run Differs" in text
    assert "One side is zero Cost per run, Cost per success" in text
    assert "Chance could explain every difference" not in text


async def test_few_runs_claim_nothing(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(model="acme-cached", status="error"))

    text = text_of(await html_of(reader, f"/projects/{project_id}/compare?a.model=acme-large&b.model=acme-cached"))

    assert "Error rate Too few runs to say" in text
    assert "Needs 30 runs on each side." in text
    assert "Needs about 100 runs on each side." in text
    assert "The figures are exact, but whether they differ by more than chance needs more runs." in text
    assert "No run of one side succeeded." in text
    assert "One side has no sessions." in text


async def test_a_project_of_others_is_not_compared(signed_in: SignIn, page: str, project_id: str) -> None:
    browser = await signed_in(project_id, Scope.METRICS_READ)

    await html_of(browser, page)
    await html_of(browser, "/projects/another/compare", 403)

"""The pages about prices: search, entry, forms, unpriced models, discounts, tester."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.price import PriceSource
from runtally.pricing.book import LivePrices
from runtally.pricing.repricing import Repricer
from runtally.services import Services
from tests.factories import make_price, make_run
from tests.pages.conftest import Post
from tests.pages.looking import PARTIAL, html_of, part_of, text_of
from webapp.formats import NOTHING


@pytest.fixture
def provider(project_id: str) -> str:
    """A provider of the test's own."""
    return project_id.replace("project", "vendor")


async def saved(reader: Browser, provider: str, url: str = "/admin/prices/new", **fields: str) -> str:
    """The address of the price that a form made."""
    form = {"provider": provider, "model": "large", "input_per_million": "3", "output_per_million": "15"} | fields
    response = await reader.post(url, form=form)
    assert response.status_code == 303, text_of(await response.get_data(as_text=True))
    return str(response.headers["Location"])


async def refused(reader: Browser, url: str, **fields: str) -> str:
    response = await reader.post(url, form=fields)
    html: str = await response.get_data(as_text=True)
    assert response.status_code == 422, html
    return html


async def test_a_price_is_added_and_found(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider, aliases="big, huge", note="Our contract.")

    entry = text_of(await html_of(reader, url))
    found = text_of(await html_of(reader, f"/admin/prices?q={provider}+HUGE"))

    assert f"{provider} large" in entry
    assert "Our contract." in entry
    assert "Set by developer" in entry
    assert "1 price" in found
    assert "$3.00" in found
    assert "No price has these words" in await html_of(reader, f"/admin/prices?q={provider}+tiny")


async def test_a_wrong_price_is_refused_at_its_fields_and_keeps_what_was_filled_in(
    reader: Browser, provider: str
) -> None:
    html = await refused(reader, "/admin/prices/new", provider=provider, model="", input_per_million="much")

    assert 'id="model-error"' in html
    assert 'id="input_per_million-error"' in html
    assert 'value="much"' in html


async def test_an_overlap_is_explained_and_leads_to_the_price_in_the_way(reader: Browser, provider: str) -> None:
    first = await saved(reader, provider, aliases="big")

    html = await refused(reader, "/admin/prices/new", provider=provider, model="big", input_per_million="1")

    assert f'href="{first}"' in html
    assert "is in force at all times for one of these names" in text_of(html)


async def test_a_new_price_from_a_date_closes_the_old_one(reader: Browser, provider: str) -> None:
    first = await saved(reader, provider)
    form = await html_of(reader, f"{first}/follow")
    assert 'value="large"' in form

    second = await saved(reader, provider, f"{first}/follow", input_per_million="2", effective_from="2027-01-01")

    history = text_of(await html_of(reader, first))
    assert "until 1 Jan 2027" in history
    assert second != first
    assert "from 1 Jan 2027" in history
    log = text_of(await html_of(reader, "/admin/audit"))
    assert f"Price changed {provider} large" in log
    refusal = await refused(
        reader, f"{second}/follow", provider=provider, model="large", input_per_million="1", effective_from="2026-01-01"
    )
    assert 'id="effective_from-error"' in refusal


async def test_a_price_is_corrected_ended_and_withdrawn(reader: Browser, provider: str) -> None:
    first = await saved(reader, provider)

    second = await saved(reader, provider, f"{first}/correct", input_per_million="4")
    ended = await reader.post(f"{second}/end", form={"effective_to": "2027-01-01"})
    wrong = await refused(reader, f"{second}/end", effective_to="soon")
    assert "withdrawn" in text_of(await html_of(reader, first))
    assert ended.status_code == 303
    assert "until 1 Jan 2027" in text_of(await html_of(reader, second))
    assert 'id="end-effective_to-error"' in wrong

    assert (await reader.post(f"{second}/withdraw")).status_code == 303
    assert "withdrawn" in await refused(reader, f"{second}/withdraw")
    assert "No price has these words" in await html_of(reader, f"/admin/prices?q={provider}")
    assert "2 prices" in text_of(await html_of(reader, f"/admin/prices?q={provider}&past=1"))


async def test_a_model_without_a_price_is_one_click_from_a_form_for_it(
    reader: Browser, post: Post, provider: str
) -> None:
    run = make_run(provider=provider, model="brand/new", inputTokens=12_000, outputTokens=500)
    await post(run, run | {"costUSD": 0.5})

    html = await html_of(reader, "/admin/prices/unpriced")

    [link] = re.findall(rf'"(/admin/prices/new\?provider={provider}[^"]*)"', html.replace("&amp;", "&"))
    assert parse_qs(urlsplit(link).query) == {"provider": [provider], "model": ["brand/new"]}
    shown = text_of(html)
    assert "24.0k in · 1,000 out" in shown
    assert "1 at the cost reported" in shown
    form = await html_of(reader, link)
    assert f'value="{provider}"' in form
    assert 'value="brand/new"' in form


async def test_the_tester_shows_the_price_and_the_cost_line_by_line(
    reader: Browser, post: Post, provider: str, project_id: str
) -> None:
    await post()
    await saved(reader, provider, above_input_tokens="1000", input_per_million="6", per_thousand_requests="5")
    discount = {"project": project_id, "percent": "50", "provider": provider}
    assert (await reader.post("/admin/prices/discounts", form=discount)).status_code == 303
    url = f"/admin/prices/tester?provider={provider}&model=large-20240620&input_tokens=2000&output_tokens=0"

    async def shown(url: str) -> str:
        return text_of(await html_of(reader, url))

    whole, less, none = [await shown(each) for each in (url, f"{url}&project={project_id}", url.replace("2000", "10"))]

    assert "$0.017" in whole
    assert "$6.00 = $0.012" in whole
    assert "$5.00 per thousand = $0.005" in whole
    assert "large-20240620 is read as large." in whole
    assert "2,000 input tokens are more than 1,000" in whole
    assert "$0.0085" in less
    assert "50% off" in less
    assert "none is in force" in none
    wrong = await html_of(reader, "/admin/prices/tester?provider=&model=x&input_tokens=1.5&at=soon", 422)
    assert all(f'id="{name}-error"' in wrong for name in ("provider", "input_tokens", "at"))


async def test_a_discount_is_given_and_ended(reader: Browser, post: Post, project_id: str) -> None:
    await post()
    form = {"project": project_id, "percent": "12.5", "effective_from": "2026-01-01"}
    url = "/admin/prices/discounts"

    assert (await reader.post(url, form=form)).status_code == 303
    html = await html_of(reader, url)
    assert project_id in text_of(html)
    assert "12.5% off" in text_of(html)
    assert 'id="effective_from-error"' in await refused(reader, url, **form)
    [end] = re.findall(rf'action="({url}/\d+/end)">\s*<span class="entry-name">{project_id}', html)
    assert (await reader.post(end)).status_code == 303
    assert "over" in text_of(await html_of(reader, url))


async def test_a_file_is_shown_before_it_is_applied(reader: Browser, provider: str) -> None:
    url = "/admin/prices/file"
    sent = f"provider,model,input_per_million\n{provider},from-file,1.5\n"

    shown = await reader.post(url, form={"csv": sent})
    html = await shown.get_data(as_text=True)
    before = await html_of(reader, f"/admin/prices?q={provider}")
    [again] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", html, re.DOTALL)
    applied = await reader.post(url, form={"csv": again, "apply": "1"})

    assert "1 to add" in text_of(html)
    assert "No price has these words" in before
    assert applied.status_code == 303
    assert "$1.50" in await html_of(reader, f"/admin/prices?q={provider}")
    csv = await (await reader.get(f"{url}/prices.csv")).get_data(as_text=True)
    assert f",{provider},from-file," in csv
    assert "refused" in await refused(reader, url, csv=sent, apply="1")
    assert "The first line must name columns" in await refused(reader, url, csv="")
    assert "The first line must name columns" in await refused(reader, url, csv="x" * 200_000)


async def test_the_catalogue_is_a_list_of_differences_to_choose_from(
    reader: Browser, provider: str, database: Database
) -> None:
    key = f"{provider}/dropped"
    async with database.session() as session:
        session.add(make_price(provider=provider, source=PriceSource.CATALOGUE, catalogue_key=key))

    url, where = "/admin/prices/catalogue", "/admin/prices/catalogue?read=1"
    first = await html_of(reader, url)
    part = await part_of(reader, where)
    html = await html_of(reader, url)
    taken = await reader.post(url, form={"key": key})

    assert "Reading genai-prices" in text_of(first)
    assert f'hx-get="{where}"' in first
    assert f'value="{key}"' not in first
    assert f'value="{key}"' in part
    assert f'value="{key}"' in html
    assert taken.status_code == 303
    # Another registry: it is compared again.
    assert "Reading genai-prices" in text_of(await html_of(reader, url))
    assert f'value="{key}"' not in await html_of(reader, where)
    assert "1 price" in text_of(await html_of(reader, f"/admin/prices?q={provider}&past=1"))


async def test_past_runs_are_repriced_after_a_look_at_what_changes(
    reader: Browser, post: Post, project_id: str, provider: str, database: Database
) -> None:
    price = await saved(reader, provider)
    prices = app_prices(reader)
    await prices.refresh()
    await post(make_run(provider=provider, model="large", inputTokens=1_000_000, outputTokens=0))
    price = await saved(reader, provider, f"{price}/correct", input_per_million="4")
    entry = await html_of(reader, price)
    assert "/admin/prices/repricing" in entry
    assert f"{provider} large 1 run in 90 days" in text_of(entry)

    made = await reader.post("/admin/prices/repricing", form={"project": project_id, "since": "2026-01-01"})
    url = made.headers["Location"]
    repricer = Repricer(database, prices, system_clock, queued=False)
    compared = await finished(repricer, reader, url)
    assert (await reader.post(f"{url}/start")).status_code == 303
    done = await finished(repricer, reader, url)

    assert "large" in compared
    assert "$3.00 $4.00 +$1.00" in text_of(compared)
    assert "Done." in text_of(done)
    assert "$4.00" in text_of(await html_of(reader, f"/projects/{project_id}"))
    assert "done already" in await refused(reader, f"{url}/pause")
    assert 'id="since-error"' in await refused(reader, "/admin/prices/repricing", since="soon")


async def finished(repricer: Repricer, reader: Browser, url: str) -> str:
    """The page at the end. The application does steps in the background as well; who comes first does not matter."""
    html = await html_of(reader, url)
    while "hx-trigger" in html:
        await repricer.work()
        html = await html_of(reader, url)
    return html


def app_prices(reader: Browser) -> LivePrices:
    services: Services = reader.app.extensions[EXTENSION]
    return services.prices


async def test_a_row_of_the_list_is_corrected_in_place_or_by_the_form_without_javascript(
    reader: Browser, provider: str
) -> None:
    url = await saved(reader, provider)
    listed = await html_of(reader, f"/admin/prices?q={provider}")
    assert f'href="{url}/correct"' in listed
    fields = await part_of(reader, f"{url}/row/edit")
    assert 'name="input_per_million"' in fields

    wrong = await reader.post(f"{url}/row", form={"input_per_million": "much"}, headers=PARTIAL)
    right = await reader.post(f"{url}/row", form={"input_per_million": "4"}, headers=PARTIAL)
    plain = await reader.post(f"{url}/row", form={"input_per_million": "5"})

    assert wrong.status_code == 422
    assert 'aria-invalid="true"' in await wrong.get_data(as_text=True)
    row = await right.get_data(as_text=True)
    assert right.status_code == 200
    assert row.strip().startswith("<tr")
    assert "$4.00" in text_of(row)
    # What was withdrawn meanwhile is corrected no more.
    assert plain.status_code == 422
    assert "This price was withdrawn" in text_of(await plain.get_data(as_text=True))


async def test_prices_in_use_come_first_with_the_runs_of_their_models(
    reader: Browser, post: Post, provider: str, project_id: str
) -> None:
    for model in ("alpha", "large", "zeta"):
        await saved(reader, provider, model=model, per_thousand_requests="5" if model == "alpha" else "")
    await saved(reader, provider, model="zeta", above_input_tokens="200000")
    await saved(reader, provider, model="large", project_id=project_id)
    await post(*(make_run(provider=provider, model=model) for model in ("large", "zeta", "zeta-20260101")))
    await post(make_run(provider=provider, model="large"), to=f"{project_id}-2")
    await app_prices(reader).refresh()

    listed = await html_of(reader, f"/admin/prices?q={provider}")

    found = [text_of(row).split(" always ")[0] for row in re.findall(r'<tr id="price-.*?</tr>', listed, re.DOTALL)]
    amounts = f"$3.00$15.00{NOTHING}{NOTHING}"
    assert found == [
        f"zeta {provider} {amounts}2",
        f"zeta {provider} · over 200,000 input tokens {amounts}{NOTHING}",
        f"large {provider} {amounts}1",
        f"large {provider} · only {project_id} {amounts}1",
        f"alpha {provider} per 1,000 requests $5.00 {amounts}{NOTHING}",
    ]


async def test_the_form_says_which_models_in_use_a_price_fits(reader: Browser, post: Post, provider: str) -> None:
    await post(*(make_run(provider=provider, model=model) for model in ("large-1", "large-2", "large-2", "tiny")))
    query = f"provider={provider}&model=large&match=regex&pattern="

    covered = text_of(await part_of(reader, f"/admin/prices/covered?{query}large-.*"))
    broken = text_of(await part_of(reader, f"/admin/prices/covered?{query}large-("))
    ahead = text_of(await part_of(reader, f"/admin/prices/covered?{query}(%3F!tiny).*"))
    exact = text_of(await part_of(reader, f"/admin/prices/covered?provider={provider}&model=TINY"))
    form = text_of(await html_of(reader, f"/admin/prices/new?provider={provider}&model=huge"))

    assert f"Fits 2 of the 3 models of {provider} used in the last 90 days: large-2 2 runs large-1 1 run" in covered
    assert "This is no regular expression: missing )." in broken
    assert "cannot look ahead or behind" in ahead
    assert "Fits 1 of the 3 models" in exact
    assert "Fits 0 of the 3 models" in form

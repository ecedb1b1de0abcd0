"""The pages about prices: search, entry, forms, unpriced models, discounts, tester."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from quart import Response
from quart.typing import TestClientProtocol as Browser

from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.pricing import entries
from tests.factories import make_price, make_run
from tests.pages.conftest import Post
from tests.pages.looking import PARTIAL, Outline, html_of, part_of, text_of
from tests.pages.price_forms import app_prices, refused, saved
from webapp.formats import NOTHING


async def test_a_price_is_added_and_found(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider, aliases="big, huge", note="Our contract.")

    entry = text_of(await html_of(reader, url))
    found = text_of(await html_of(reader, f"/admin/prices?q={provider}+HUGE"))

    assert f"{provider} large" in entry
    assert "Our contract." in entry
    assert "Set by developer" in entry
    assert "1 price" in found
    assert "$3.00" in found
    assert "No matching prices" in await html_of(reader, f"/admin/prices?q={provider}+tiny")


async def test_thousands_of_prices_come_in_small_pages(reader: Browser, provider: str, database: Database) -> None:
    async with database.session() as session:
        session.add_all(make_price(provider=provider, model=f"model-{number:04}") for number in range(2_050))
    url = f"/admin/prices?q={provider}"

    first, second = await html_of(reader, url), await html_of(reader, f"{url}&page=2")
    last, beyond = await html_of(reader, f"{url}&page=21"), await html_of(reader, f"{url}&page=99999")

    assert "2,050 prices" in text_of(first)
    assert "1 to 100 of 2,050 Next" in text_of(first)
    assert f'href="/admin/prices?q={provider}&amp;page=2"' in first
    assert "101 to 200 of 2,050 Previous Next" in text_of(second)
    assert f'href="/admin/prices?q={provider}"' in second
    assert "model-0100" in second
    assert "2,001 to 2,050 of 2,050 Previous" in text_of(last)
    assert "2,001 to 2,050 of 2,050" in text_of(beyond)
    assert len(first) < 300_000
    # A search begins anew, and what is one page has no ways to others.
    assert 'id="prices-next"' not in await html_of(reader, f"{url}+model-0007")


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
    assert "From 1 Jan 2027 Input $3.00 →became $2.00 ↓33.3% scheduled · set by developer" in history
    assert "Initial price Input $3.00 Output $15.00 in force · set by developer" in history
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
    assert "No matching prices" in await html_of(reader, f"/admin/prices?q={provider}")
    assert "2 prices" in text_of(await html_of(reader, f"/admin/prices?q={provider}&past=1"))


async def test_a_model_without_a_price_is_one_click_from_a_form_for_it(
    reader: Browser, post: Post, provider: str
) -> None:
    run = make_run(provider=provider, model="brand/new", inputTokens=12_000, outputTokens=500)
    await post(run, run | {"costUSD": 0.5})

    html = await html_of(reader, "/admin/prices")

    [link] = re.findall(rf'"(/admin/prices/new\?provider={provider}[^"]*)"', html.replace("&amp;", "&"))
    assert parse_qs(urlsplit(link).query) == {"provider": [provider], "model": ["brand/new"]}
    shown = text_of(html)
    assert re.search(r"24\.0k\s*1,000\s*2 runs\s*1\b", shown)
    form = await html_of(reader, link)
    assert f'value="{provider}"' in form
    assert 'value="brand/new"' in form


async def test_a_price_says_what_it_changes_in_money_while_it_is_typed(
    reader: Browser, post: Post, provider: str
) -> None:
    await saved(reader, provider, model="known", aliases="", input_per_million="1", output_per_million="0")
    await post(
        make_run(provider=provider, model="known", inputTokens=2_000_000, outputTokens=0),
        make_run(provider=provider, model="other", inputTokens=1_000_000, outputTokens=0),
    )
    typed = {"provider": provider, "model": "known", "aliases": "other", "input_per_million": "3", "match": "exact"}

    text = text_of(await part_of(reader, f"/admin/prices/covered?{urlencode(typed)}"))
    half = text_of(await part_of(reader, f"/admin/prices/covered?{urlencode(typed | {'input_per_million': 'x'})}"))

    assert "Last 30 days' tokens: $2.00 → $9.00" in text
    assert "A run of 10,000 tokens in and 1,000 out costs $0.03." in text
    assert "known 1 $2.00 $6.00" in text
    assert "other 1 no price $3.00" in text
    assert "Last 30 days" not in half


def tomorrow() -> str:
    return f"{system_clock() + timedelta(days=1):%Y-%m-%d}"


async def test_a_scheduled_price_begins_tomorrow_unless_another_day_is_chosen(reader: Browser, provider: str) -> None:
    first = await saved(reader, provider)

    before = tomorrow()
    form = Outline(await html_of(reader, f"{first}/follow"))

    field = form.by_id("effective_from")
    assert field["type"] == "date"
    assert field["value"] in {before, tomorrow()}


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
    assert "large-20240620 is treated as large." in whole
    assert "2,000 input tokens are more than 1,000" in whole
    assert "$0.0085" in less
    assert "50% off" in less
    assert "none in force" in none
    wrong = await html_of(reader, "/admin/prices/tester?provider=&model=x&input_tokens=1.5&at=soon", 422)
    assert all(f'id="{name}-error"' in wrong for name in ("provider", "input_tokens", "at"))


async def test_further_units_and_variants_are_entered_shown_changed_and_tried(reader: Browser, provider: str) -> None:
    rules = {"unit_rates": "cacheWrite1h 6, webSearch 10", "variants": "tier batch: x 0.5\nregion us: x 1.1"}
    wrong = await refused(
        reader, "/admin/prices/new", provider=provider, model="large", unit_rates="made 1", variants="cheap at night"
    )
    first = await saved(reader, provider, cache_write_per_million="3.75", **rules)
    second = await saved(
        reader,
        provider,
        f"{first}/follow",
        effective_from="2027-01-01",
        **{**rules, "unit_rates": "webSearch 14", "variants": ""},
    )
    url = (
        f"/admin/prices/tester?provider={provider}&model=large&input_tokens=1000&output_tokens=0&cache_write_tokens=500"
    )
    tried = f"{url}&units=cacheWrite1h+400%2C+webSearch+2%2C+made+1&serviceTier=Batch&region=us"

    page, later = [text_of(await html_of(reader, each)) for each in (first, second)]
    form = Outline(await html_of(reader, f"{first}/correct"))
    answer = text_of(await html_of(reader, tried))

    assert all(f'id="{name}-error"' in wrong for name in rules)
    assert "Web searches, per 1,000 requests $10.00" in page
    assert "tier batch: x 0.5" in page
    assert form.by_id("unit_rates")["value"] == rules["unit_rates"]
    assert "Web searches, per 1,000 requests $10.00 →became $14.00 ↑40.0%" in later
    assert "Variant region us: x 1.1 →became" in later
    # 500 + 400 at 6 + 100 at 3.75, halved and times 1.1; the searches stay.
    for text in (
        "$0.02235125",
        "or more",
        "Cache write, 1 hour 400",
        "$10.00 per 1,000 requests = $0.02",
        "made 1",
        "no price",
    ):
        assert text in answer
    assert re.search(r"Service tier = .\$0\.002[0-9]+ ", answer)
    assert 'name="units"' in await html_of(reader, f"{url}&units=x", 422)


async def test_a_discount_is_given_and_ended(reader: Browser, post: Post, project_id: str) -> None:
    await post()
    form = {"project": project_id, "percent": "12.5", "effective_from": "2026-01-01"}
    url = "/admin/prices/discounts"

    assert (await reader.post(url, form=form)).status_code == 303
    html = await html_of(reader, url)
    assert project_id in text_of(html)
    assert "12.5%" in text_of(html)
    assert 'id="effective_from-error"' in await refused(reader, url, **form)
    [end] = re.findall(rf'<bdi>{project_id}</bdi>(?:(?!</tr>).)*?action="({url}/\d+/end)"', html, re.DOTALL)
    assert (await reader.post(end)).status_code == 303
    assert "over" in text_of(await html_of(reader, url))


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("discounts", ("percent", "effective_from", "note")),
        ("currency", ("currency", "rate", "since")),
        ("new", ("provider", "model", "input_per_million")),
    ],
)
async def test_each_wrong_field_is_said_at_once_and_by_its_name(
    reader: Browser, post: Post, project_id: str, page: str, fields: tuple[str, ...]
) -> None:
    await post()
    form = {"project": project_id} | dict.fromkeys(fields, "-1" + "x" * 1200)

    html = await refused(reader, f"/admin/prices/{page}", **form)

    links = [link for link in Outline(html).all("a") if (link.get("id") or "").endswith("-wrong")]
    labels = {label["id"]: label["for"] for label in Outline(html).all("label") if "id" in label}
    assert {link["href"] for link in links} == {f"#{name}" for name in fields}
    for link, name in zip(links, [(link["href"] or "")[1:] for link in links], strict=True):
        assert f'id="{name}-error"' in html
        assert labels[f"{name}-label"] == name
        assert link["aria-labelledby"] == f"{name}-label {link['id']}"


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


async def test_amounts_edited_in_the_row_keep_what_another_admin_saves_meanwhile(
    reader: Browser, provider: str, database: Database
) -> None:
    entry_id = int((await saved(reader, provider)).rpartition("/")[2])
    async with database.session() as session:
        entry = await entries.get(session, entry_id)
        await entries.end(session, OPERATOR, entry, datetime(2099, 1, 1, tzinfo=UTC), system_clock())
        await session.flush()
        fields = {"input_per_million": "9", "output_per_million": "15", "applies": "start"}
        edited = asyncio.create_task(reader.post(f"/admin/prices/{entry_id}/row", form=fields))
        async with database.connection() as connection:
            while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                assert not edited.done()
    await edited

    async with database.connection() as connection:
        query = "SELECT input_per_million, effective_to FROM price_entries WHERE provider = $1 AND withdrawn_at IS NULL"
        [row] = await connection.fetch(query, provider)
    assert tuple(row) == (9, datetime(2099, 1, 1, tzinfo=UTC))


async def test_amounts_edited_in_the_row_hold_from_now_on_where_that_is_chosen(reader: Browser, provider: str) -> None:
    url = await saved(reader, provider)
    assert "From now on" in text_of(await part_of(reader, f"{url}/row/edit"))

    changed = await reader.post(f"{url}/row", form={"input_per_million": "4", "applies": "now"}, headers=PARTIAL)

    assert "$4.00" in text_of(await changed.get_data(as_text=True))
    assert f"{provider} large over" in text_of(await html_of(reader, url))


@pytest.mark.parametrize("form", ["tester", "discounts", "repricing", "new"])
async def test_forms_suggest_the_providers_in_use(
    reader: Browser, post: Post, provider: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests leave more names than forms suggest.
    monkeypatch.setattr("webapp.pages.prices.frame._MOST_NAMES", 100_000)
    await post({"provider": provider, "model": "suggested"})

    html = await html_of(reader, f"/admin/prices/{form}")

    assert 'list="providers"' in html
    assert f'<option value="{provider}"></option>' in html


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
        f"zeta {provider} {amounts} 2",
        f"zeta {provider} · over 200,000 input tokens {amounts} {NOTHING}",
        f"large {provider} {amounts} 1",
        f"large {provider} · only {project_id} {amounts} 1",
        f"alpha {provider} per 1,000 requests $5.00 {amounts} {NOTHING}",
    ]


async def test_the_form_says_which_models_in_use_a_price_fits(reader: Browser, post: Post, provider: str) -> None:
    await post(*(make_run(provider=provider, model=model) for model in ("large-1", "large-2", "large-2", "tiny")))
    query = f"provider={provider}&model=large&match=regex&pattern="

    covered = text_of(await part_of(reader, f"/admin/prices/covered?{query}large-.*"))
    broken = text_of(await part_of(reader, f"/admin/prices/covered?{query}large-("))
    ahead = text_of(await part_of(reader, f"/admin/prices/covered?{query}(%3F!tiny).*"))
    exact = text_of(await part_of(reader, f"/admin/prices/covered?provider={provider}&model=TINY"))
    form = text_of(await html_of(reader, f"/admin/prices/new?provider={provider}&model=huge"))

    assert f"Matches 2 of the 3 models of {provider} used in the last 90 days: large-2 2 runs large-1 1 run" in covered
    assert "This is no regular expression: missing )." in broken
    assert "cannot look ahead or behind" in ahead
    assert "Matches 1 of the 3 models" in exact
    assert "Matches 0 of the 3 models" in form


async def listed_ids(reader: Browser, text: str) -> list[str]:
    """The prices that are selected with "Select all"."""
    html = await html_of(reader, f"/admin/prices/bulk?q={text}&all=1")
    return re.findall(r'name="entry"\s+value="(\d+)"\s+checked', html)


async def change(reader: Browser, fields: dict[str, str | list[str]]) -> Response:
    """Send the form that changes several prices."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await reader.post("/admin/prices/bulk", data=urlencode(fields, doseq=True), headers=headers)


async def test_several_prices_change_together_after_a_preview_in_money(
    reader: Browser, post: Post, provider: str
) -> None:
    await saved(reader, provider, model="known", input_per_million="1", output_per_million="0")
    await saved(reader, provider, model="other", input_per_million="4", output_per_million="0")
    await post(
        make_run(provider=provider, model="known", inputTokens=2_000_000, outputTokens=0),
        make_run(provider=provider, model="other", inputTokens=1_000_000, outputTokens=0),
    )
    before = tomorrow()
    listed = Outline(await html_of(reader, f"/admin/prices/bulk?q={provider}&all=1"))
    assert listed.by_id("bulk-effective_from")["value"] in {before, tomorrow()}
    ids = await listed_ids(reader, provider)
    asked = {"q": provider, "how": "percent", "component": "all", "value": "-50", "effective_from": "2099-01-01"}

    previewed = await change(reader, {**asked, "entry": ids, "act": "preview"})

    text = text_of(await previewed.get_data(as_text=True))
    assert previewed.status_code == 200
    assert "Last 30 days' tokens: $6.00 → $3.00 ↓50.0%" in text
    assert "Input $4.00 →becomes $2.00 $4.00 $2.00" in text
    assert "Schedule 2 changes" in text

    done = await change(reader, {**asked, "entry": ids, "act": "schedule"})

    assert done.status_code == 303
    rows = text_of(await html_of(reader, f"/admin/prices?q={provider}"))
    assert rows.count(f"{provider} · scheduled") == 2
    assert rows.count("until 1 Jan 2099") >= 2


async def test_a_change_of_several_prices_counts_projects_with_their_own_price_once(
    reader: Browser, post: Post, provider: str, project_id: str
) -> None:
    await saved(reader, provider, model="known", input_per_million="1", output_per_million="0")
    await saved(reader, provider, model="known", input_per_million="5", output_per_million="0", project_id=project_id)
    run = make_run(provider=provider, model="known", inputTokens=1_000_000, outputTokens=0)
    await post(run)
    await post(
        make_run(provider=provider, model="known", inputTokens=1_000_000, outputTokens=0), to=f"{project_id}-other"
    )
    ids = await listed_ids(reader, provider)

    response = await change(reader, {"how": "percent", "value": "100", "effective_from": "2099-01-01", "entry": ids})

    assert "Last 30 days' tokens: $6.00 → $12.00" in text_of(await response.get_data(as_text=True))


async def test_a_wrong_change_of_several_prices_is_refused_at_its_fields_and_keeps_the_selection(
    reader: Browser, provider: str
) -> None:
    address = await saved(reader, provider)
    entry = address.rpartition("/")[2]

    html = await refused(reader, "/admin/prices/bulk", q=provider, entry=entry, value="much", effective_from="")

    assert "Enter a percentage from -100 to 1,000" in html
    assert "Enter the day on which the change starts" in html
    assert re.search(rf'value="{entry}"\s+checked', html)
    nothing = await refused(reader, "/admin/prices/bulk", q=provider, value="5", effective_from="2099-01-01")
    assert "Select the prices to change." in nothing
    past = await refused(
        reader,
        "/admin/prices/bulk",
        entry=entry,
        value="-100",
        component="cache_read_per_million",
        effective_from="2099-01-01",
        act="schedule",
    )
    assert "None of these prices would change; nothing was saved." in past

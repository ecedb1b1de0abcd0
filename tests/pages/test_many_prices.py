"""The pages about many prices at once: from a file, from the catalogue, and for runs of the past."""

import re

from quart.typing import TestClientProtocol as Browser

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.price import PriceSource
from runtally.pricing.repricing.repricer import Repricer
from tests.factories import make_price, make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of, part_of, text_of
from tests.pages.price_forms import app_prices, refused, saved


async def test_a_file_is_shown_before_it_is_applied(reader: Browser, provider: str) -> None:
    url = "/admin/prices/file"
    sent = f"provider,model,input_per_million\n{provider},from-file,1.5\n"

    shown = await reader.post(url, form={"csv": sent})
    html = await shown.get_data(as_text=True)
    before = await html_of(reader, f"/admin/prices?q={provider}")
    [again] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", html, re.DOTALL)
    applied = await reader.post(url, form={"csv": again, "apply": "1"})

    assert "1 to add" in text_of(html)
    assert "No matching prices" in before
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
    assert f'href="/admin/prices/repricing?provider={provider}&amp;model=large"' in entry
    assert f"{provider} large 1 run in 90 days" in text_of(entry)

    made = await reader.post("/admin/prices/repricing", form={"project": project_id, "since": "2026-01-01"})
    url = made.headers["Location"]
    repricer = Repricer(database, lambda _: [database], prices, system_clock, queued=False)
    compared = await finished(repricer, reader, url)
    assert (await reader.post(f"{url}/start")).status_code == 303
    done = await finished(repricer, reader, url)

    assert "large" in compared
    assert "$3.00 $4.00 +$1.00" in text_of(compared)
    assert "Done." in text_of(done)
    assert "$4.00" in text_of(await html_of(reader, f"/projects/{project_id}"))
    assert "done already" in await refused(reader, f"{url}/pause")
    assert 'id="since-error"' in await refused(reader, "/admin/prices/repricing", since="soon")


async def test_a_repricing_says_that_nothing_would_change_and_refuses_an_end_before_its_start(
    reader: Browser, post: Post, project_id: str, provider: str, database: Database
) -> None:
    await saved(reader, provider)
    prices = app_prices(reader)
    await prices.refresh()
    await post(make_run(provider=provider, model="large"))

    made = await reader.post("/admin/prices/repricing", form={"project": project_id})
    repricer = Repricer(database, lambda _: [database], prices, system_clock, queued=False)
    compared = await finished(repricer, reader, made.headers["Location"])
    backwards = await refused(reader, "/admin/prices/repricing", since="2026-02-01", until="2026-01-01")

    assert "Nothing would change. Done" in text_of(compared)
    assert "/cancel" not in compared
    assert "The end must come after the start." in text_of(backwards)
    assert 'id="until-error"' in backwards


async def finished(repricer: Repricer, reader: Browser, url: str) -> str:
    """The page at the end. The application does steps in the background as well; who comes first does not matter."""
    html = await html_of(reader, url)
    while 'hx-trigger="every' in html:
        await repricer.work()
        html = await html_of(reader, url)
    return html

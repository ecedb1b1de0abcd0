"""Pages in another currency than dollars: what an admin sets, and what converts."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.factories import make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of, text_of

URL = "/admin/prices/currency"
EARLIER = "2026-01-01"


@pytest.fixture(autouse=True)
async def dollars_again(app: Quart, database: Database) -> AsyncIterator[None]:
    yield
    async with database.connection() as connection:
        await connection.execute("DELETE FROM currency_rates")
    await app.extensions[EXTENSION].prices.refresh()


async def rate(reader: Browser, rate: str, since: object = EARLIER, code: str = "EUR") -> str:
    response = await reader.post(URL, form={"currency": code, "since": str(since), "rate": rate})
    return "" if response.status_code == 303 else text_of(await response.get_data(as_text=True))


@pytest.fixture
async def spent(post: Post) -> None:
    """Ten dollars, of which two failed."""
    run = {"provider": "openrouter", "model": "a/b"}
    await post(
        make_run(**run, costUSD=8, sessionId="s", traceId="t", runId="r8"),
        make_run(**run, costUSD=2, status="error", errorCode="x", sessionId="s", traceId="t"),
    )


@pytest.mark.usefixtures("spent")
async def test_pages_show_the_currency_and_say_by_which_rate(reader: Browser, project_id: str) -> None:
    before = await html_of(reader, f"/projects/{project_id}")
    assert not await rate(reader, "0.5")

    html = await html_of(reader, f"/projects/{project_id}")

    assert "$10.00" in text_of(before)
    assert "></p>" in before.partition('id="currency-note"')[2].partition("\n    </main>")[0]
    assert '<span title="$10.00 at 1 USD = 0.5 EUR">€5.00</span>' in html
    assert "Amounts are in EUR at 1 USD = 0.5 EUR, the rate since" in text_of(html)
    assert "$10" not in text_of(html)


@pytest.mark.usefixtures("spent")
async def test_a_page_uses_one_rate_that_of_the_last_day_it_shows(reader: Browser, project_id: str) -> None:
    today = system_clock().date()
    await rate(reader, "0.5", today)
    await rate(reader, "0.25", EARLIER)

    now = text_of(await html_of(reader, f"/projects/{project_id}?range=30d"))
    past = text_of(await html_of(reader, f"/projects/{project_id}?range=last-month"))
    until = text_of(await html_of(reader, f"/projects/{project_id}?since={EARLIER}T00:00&until={today}T00:00"))
    before = text_of(await html_of(reader, f"/projects/{project_id}?since=2021-01-01T00:00&until=2021-01-02T00:00"))

    assert "1 USD = 0.5 EUR" in now
    assert "1 USD = 0.25 EUR" in past
    assert "1 USD = 0.25 EUR" in until
    assert "Amounts are in US dollars: there is no rate of EUR for the time that is shown." in before


@pytest.mark.usefixtures("spent")
async def test_a_part_of_a_page_brings_the_note_of_its_rate(reader: Browser, project_id: str) -> None:
    await rate(reader, "0.5")

    part = {"HX-Request": "true", "HX-Request-Type": "partial"}
    html = await (await reader.get(f"/projects/{project_id}?range=24h", headers=part)).get_data(as_text=True)

    assert '<p id="currency-note"' in html
    assert 'hx-swap-oob="true">Amounts are in EUR' in html


@pytest.mark.usefixtures("spent")
async def test_charts_are_in_the_currency_and_their_bars_in_dollars(reader: Browser, project_id: str) -> None:
    path = f"/charts/cost.json?project={project_id}&range=24h"
    before = await (await reader.get(path)).get_json()
    await rate(reader, "0.5")

    after = await (await reader.get(path)).get_json()

    assert "€5.00" in str(after["tips"])
    assert "$" not in str(after["tips"])
    assert re.search(r"€\d", str(after))
    assert bars(before) == bars(after)


def bars(payload: dict[str, Any]) -> list[float]:
    """How high the bars are, wherever the ticks of the axis stand."""
    return [row["v"] for data in payload["spec"]["datasets"].values() for row in data if "v" in row]


@pytest.mark.usefixtures("spent")
async def test_files_and_the_api_stay_in_dollars(reader: Browser, project_id: str) -> None:
    await rate(reader, "0.5")

    exported = await (await reader.get(f"/runs/export.csv?project={project_id}")).get_data(as_text=True)
    answer = await (await reader.get(f"/api/metrics?projectId={project_id}&range=24h")).get_json()

    assert "8" in exported
    assert "€" not in exported
    assert answer["costByModel"] == {"a/b": 10}


class Attributes(HTMLParser):
    """Everything that stands in attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.values = list[str]()

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.values += [value for _, value in attrs if value]


@pytest.mark.usefixtures("spent")
async def test_no_page_has_an_element_in_an_attribute_or_as_text(reader: Browser, project_id: str) -> None:
    await rate(reader, "0.5")
    await reader.post(f"/projects/{project_id}/budgets", form={"amount": "400", "period": "month"})
    of_project = ("", "/lines", "/breakdown?by=status", "/costs", "/errors", "/cache", "/speed", "/compare", "/budgets")
    more = ("/sessions", "/sessions/s", "/traces/t", "/runs/r8", "/agents", "/why", "/experiments")
    paths = [f"/projects/{project_id}{one}" for one in (*of_project, *more)]
    converted = 0

    for path in ("/", "/breakdown", f"/runs?project={project_id}", "/admin/budgets", *paths):
        response = await reader.get(path)
        if response.status_code == 404:
            continue
        html = await response.get_data(as_text=True)
        found = Attributes()
        found.feed(html)
        assert not [value for value in found.values if "<span" in value], path
        assert "&lt;span" not in html, path
        converted += "€" in html
    assert converted >= 14


@pytest.mark.parametrize(
    ("field", "sent", "message"),
    [
        ("currency", "USD", "Give the three letters of a currency, such as EUR"),
        ("currency", "euro", "Give the three letters of a currency, such as EUR"),
        ("since", "soon", "Give a day such as 2026-12-01."),
        ("since", "0001-01-01", "Give a day such as 2026-12-01."),
        *(
            ("rate", sent, "Give what one US dollar is worth, such as 0.92")
            for sent in ("", "0", "-1", "NaN", "Infinity", "0,92", "1e99", "0.000000001", "1" * 40, "10000001")
        ),
    ],
)
async def test_a_mistake_has_a_message_and_changes_nothing(
    reader: Browser, database: Database, field: str, sent: str, message: str
) -> None:
    form = {"currency": "EUR", "since": "2026-01-01", "rate": "0.92", field: sent}

    response = await reader.post(URL, form=form)

    assert response.status_code == 422
    assert message in text_of(await response.get_data(as_text=True))
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM currency_rates") == 0


async def test_there_is_one_currency_and_one_rate_a_day(reader: Browser) -> None:
    assert not await rate(reader, "0.92", "2026-01-01")

    assert "Pages show EUR: remove its rates" in await rate(reader, "0.8", "2026-02-01", "CHF")
    assert "There is a rate since that day" in await rate(reader, "0.8", "2026-01-01")


async def test_rates_are_audited_and_removed(reader: Browser, project_id: str, post: Post) -> None:
    await post(make_run(provider="openrouter", costUSD=8))
    await rate(reader, "0.92000", "2026-01-01")
    shown = text_of(await html_of(reader, URL))

    removed = await reader.post(f"{URL}/2026-01-01/remove")
    again = await reader.post(f"{URL}/2026-01-01/remove")

    assert "1 USD = 0.92 EUR" in shown
    assert removed.status_code == 303
    assert again.status_code == 404
    assert (await reader.post(f"{URL}/soon/remove")).status_code == 404
    log = text_of(await html_of(reader, "/admin/audit"))
    assert "currency rate" in log.lower().replace("_", " ").replace(".", " ")
    assert "€" not in await html_of(reader, f"/projects/{project_id}")


async def test_rates_are_managed_over_the_api(app: Quart) -> None:
    client = app.test_client()
    sent = {"currency": "eur", "since": "2026-01-01", "rate": 0.92}

    made = await client.post("/api/currencyRates", json=sent)

    stored = await made.get_json()
    assert made.status_code == 201, stored
    assert stored["currency"] == "EUR"
    path = f"/api/currencyRates/{stored['id']}"
    changed = await (await client.put(path, json={**stored, "rate": 0.95})).get_json()
    assert changed["rate"] == 0.95
    assert (await (await client.get("/api/currencyRates")).get_json())["currencyRates"] == [changed]
    refused = await client.post("/api/currencyRates", json={**sent, "rate": -1, "since": "2026-02-01"})
    assert refused.status_code == 422
    assert (await refused.get_json())["error"]["details"][0]["path"] == "rate"
    assert (await client.delete(path)).status_code == 200

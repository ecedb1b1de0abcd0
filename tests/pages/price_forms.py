"""Forms of prices, filled in."""

from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.pricing.book import LivePrices
from runtally.services import Services
from tests.pages.looking import text_of


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


def app_prices(reader: Browser) -> LivePrices:
    services: Services = reader.app.extensions[EXTENSION]
    return services.prices

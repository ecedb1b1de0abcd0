"""Dev mode answers by this machine's own names alone."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.serving import settings_for
from webapp.app import create_app

FOREIGN = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "@",
    "evil.example@localhost",
    "localhost/evil.example",
    "localhost?evil.example",
    "10.0.0.7",
    # Too long to be looked at.
    "a." * 2_000,
]
OWN = ["localhost", "LOCALHOST:8000", "127.0.0.1:9", "[::1]:8000", "runtally.test:80"]

Open = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def opened(**settings: object) -> Browser:
            app = create_app(settings_for(database_url, host="runtally.test", **settings))
            running = app.test_app()
            await running.startup()
            stack.push_async_callback(running.shutdown)
            return app.test_client()

        yield opened


async def test_dev_mode_refuses_the_names_of_others(opened: Open) -> None:
    browser = await opened(service_dev_mode=True)

    for host in FOREIGN:
        for path in ("/", "/api/metrics?aggregate=1", "/metrics"):
            response = await browser.get(path, headers={"Host": host})
            assert response.status_code in {400, 403}, (host, path)
            assert "costUSD" not in await response.get_data(as_text=True)
    refused = await browser.get("/", headers={"Host": "evil.example"})
    assert "SERVICE_DEV_MODE_ALLOW_REMOTE=1" in await refused.get_data(as_text=True)


async def test_dev_mode_answers_by_its_own_names(opened: Open) -> None:
    browser = await opened(service_dev_mode=True)

    for host in OWN:
        assert (await browser.get("/", headers={"Host": host})).status_code == 200, host


@pytest.mark.parametrize("settings", [{"service_dev_mode": True, "service_dev_mode_allow_remote": True}, {}])
async def test_elsewhere_any_name_will_do(opened: Open, settings: dict[str, object]) -> None:
    browser = await opened(**settings)

    assert (await browser.get("/api/health", headers={"Host": "runtally.example"})).status_code == 200

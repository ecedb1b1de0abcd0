"""The application that tests of OTLP share."""

from collections.abc import AsyncIterator

import pytest
from quart import Quart

from runtally.db.database import Database
from tests.serving import settings_for
from webapp.app import create_app


@pytest.fixture(scope="module")
async def own_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """An application of this module's own, in this process."""
    app = create_app(settings_for(database_url, otlp_project="the-default"))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.

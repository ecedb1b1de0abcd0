"""Runs, prices and projects with sane defaults; a test names only what it is about. And how many examples are tried."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.price import Match, PriceEntry, PriceSource

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def make_run(**fields: object) -> dict[str, Any]:
    """A run as a client sends it; `field=None` leaves a default out."""
    run: dict[str, Any] = {
        "provider": "acme",
        "model": "acme-large",
        "inputTokens": 1000,
        "outputTokens": 500,
        "latencyMs": 800,
        "status": "success",
    }
    return {name: value for name, value in (run | fields).items() if value is not None}


def make_price(**columns: Any) -> PriceEntry:  # noqa: ANN401  # Any column of the table.
    values: dict[str, Any] = {
        "provider": "acme",
        "model": "acme-large",
        "aliases": [],
        "match": Match.EXACT,
        "above_input_tokens": 0,
        "input_per_million": Decimal(3),
        "output_per_million": Decimal(15),
        "estimated": False,
        "source": PriceSource.ADMIN,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return PriceEntry(**(values | columns))


async def insert_test_prices(database: Database) -> None:
    """Prices of a provider that exists in tests only, so that no catalogue changes what a test expects."""
    async with database.session() as session:
        session.add(make_price())
        session.add(
            make_price(
                model="acme-cached",
                cache_read_per_million=Decimal("0.3"),
                cache_write_per_million=Decimal("3.75"),
                reasoning_per_million=Decimal(20),
                audio_input_per_million=Decimal(40),
                audio_output_per_million=Decimal(80),
            )
        )
        session.add(
            make_price(
                model="acme-varied",
                cache_write_per_million=Decimal("3.75"),
                unit_rates="cacheWrite1h 6, webSearch 10",
                variants="tier batch: x 0.5\nregion us: x 1.1",
            )
        )
        session.add(make_price(model="acme-guess", estimated=True))
        session.add(make_price(model="acme-old", effective_to=datetime(2026, 1, 1, tzinfo=UTC)))
        session.add(
            make_price(model="acme-old", effective_from=datetime(2026, 1, 1, tzinfo=UTC), input_per_million=Decimal(1))
        )
        session.add(make_price(provider="openrouter", model="acme/routed", input_per_million=Decimal(2)))


async def make_key(database: Database, project_id: str | None, *scopes: Scope, **options: Any) -> str:  # noqa: ANN401  # Those of `issue`.
    """The secret of a new key."""
    async with database.session() as session:
        return issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes, **options).secret


def examples(share: int, **more: Any) -> settings:  # noqa: ANN401  # Any of its settings.
    """One in so many of the examples that a pure test tries, for one that takes many statements for each.

    They are others in each run. `--hypothesis-profile=deep` tries ten times as many.
    """
    shared = [HealthCheck.function_scoped_fixture]
    return settings(max_examples=settings().max_examples // share, suppress_health_check=shared, **more)

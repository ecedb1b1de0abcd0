"""Which discount holds for a run."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations

import pytest

from runtally.pricing.cost import Price, Rates, total_usd
from runtally.pricing.match import Discount, less_discount
from runtally.units import Usage

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=7)
TICK = timedelta(microseconds=1)
PRICE = Price(1, "openai", "gpt-4o", 0, Rates.of(input=1_000_000, output=2_000_000), estimated=False)


@pytest.mark.parametrize(
    ("at", "holds"),
    [
        (START - TICK, False),
        (START, True),
        (END - TICK, True),
        (END, False),
        (END + TICK, False),
    ],
)
def test_it_holds_from_its_start_until_just_before_its_end(at: datetime, holds: bool) -> None:
    assert Discount("acme", None, Decimal(10), START, END).holds("openai", at) is holds


@pytest.mark.parametrize("at", [START - timedelta(days=9_000), END + timedelta(days=9_000)])
def test_without_a_start_and_an_end_it_always_holds(at: datetime) -> None:
    assert Discount("acme", None, Decimal(10)).holds("openai", at)


@pytest.mark.parametrize(("provider", "holds"), [("OpenAI", True), ("openai", True), ("anthropic", False)])
def test_one_for_a_provider_holds_for_no_other(provider: str, holds: bool) -> None:
    assert Discount("acme", "openai", Decimal(10)).holds(provider, START) is holds


@pytest.mark.parametrize("name", ["xai", " XAI", "x_ai", "chatxai"])
def test_one_for_a_provider_holds_under_all_its_names(name: str) -> None:
    assert Discount("acme", "x-ai", Decimal(10)).holds(name, START)


def test_one_for_a_providers_other_name_holds_for_runs_that_were_sent_under_it_alone() -> None:
    found = Discount("acme", "vertex-ai", Decimal(10))

    assert found.holds("vertex_ai", START)
    assert not found.holds("google", START)


def test_of_two_that_hold_the_one_for_the_provider_counts_in_whichever_order() -> None:
    several = (
        Discount("acme", None, Decimal(10)),
        Discount("acme", "openai", Decimal(20)),
        Discount("acme", "anthropic", Decimal(90)),
    )

    for ordered in permutations(several):
        found = less_discount(PRICE, ordered, "openai", START)
        assert total_usd(Usage(1_000_000, 0), found) == Decimal("0.80")
        of_another = less_discount(PRICE, ordered, "groq", START)
        assert total_usd(Usage(1_000_000, 0), of_another) == Decimal("0.90")


def test_without_one_that_holds_the_price_stays() -> None:
    assert less_discount(PRICE, [Discount("acme", "anthropic", Decimal(90))], "openai", START) is PRICE

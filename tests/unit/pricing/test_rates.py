"""Rates of further units, and variants: their notation, which runs they are for, and what those cost, to the last digit."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.run import CostSource
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import (
    Price,
    Rates,
    discounted,
    lines_of,
    price_for_run,
    resolve_cost,
    total_usd,
    unpriced_units,
)
from runtally.pricing.rates import InvalidRates, rates_text, read_rates, read_variants, variants_text
from runtally.units import FURTHER, LINES, Measured, Unit, Usage

MONDAY = datetime(2026, 11, 23, 12, tzinfo=UTC)
SATURDAY_PEAK = datetime(2026, 11, 28, 2, tzinfo=UTC)
MONDAY_PEAK = datetime(2026, 11, 23, 2, 59, 59, tzinfo=UTC)
OPUS = Price(
    1, "anthropic", "opus", 0, Rates.of(input=5_000_000, output=25_000_000, cache_read=500_000, cache_write=6_250_000),
    estimated=False,
)  # fmt: skip
HOUR = replace(OPUS, rates=Rates(OPUS.rates.picos, {"cacheWrite1h": 10_000_000, "webSearch": 10_000_000_000}))
VARIED = replace(
    HOUR,
    variants=read_variants(
        "tier batch: x 0.5\n"
        "tier fast: input 10, output 50, cacheRead 1, cacheWrite 12.5, cacheWrite1h 20\n"
        "region us: x 1.1 # the vendor's page\n"
        "hours 01:00-04:00 06:00-10:00; weekdays 1-5: x 2\n"
        "above 200000: input 10"
    ),
)
RUN = Usage(21_942, 704, cached_input_tokens=20_111, cache_write_tokens=812, units={"cacheWrite1h": 504})
"""1,019 tokens are read anew, 308 are written for five minutes and 504 for an hour."""


def cost_of(usage: Usage, price: Price, **run: Any) -> Decimal:  # noqa: ANN401  # What a run is told apart by.
    given_run = {"tier": None, "region": None, "at": MONDAY, "input_tokens": usage.input_tokens or 0}
    return total_usd(usage, price_for_run(price, **(given_run | run)))


def test_writing_to_a_cache_for_an_hour_has_its_own_price() -> None:
    assert total_usd(RUN, HOUR) == Decimal("0.0397155")
    assert total_usd(replace(RUN, units=None), HOUR) == Decimal("0.0378255")
    assert [(line.name, line.quantity) for line in lines_of(RUN, HOUR)] == [
        ("input", 1019),
        ("cacheRead", 20_111),
        ("cacheWrite", 308),
        ("output", 704),
        ("cacheWrite1h", 504),
    ]


def test_a_part_without_a_price_of_its_own_costs_what_its_whole_does() -> None:
    assert total_usd(RUN, OPUS) == total_usd(replace(RUN, units=None), OPUS)
    assert unpriced_units(RUN, OPUS) == ()


def test_parts_whose_whole_was_left_out_are_charged_once() -> None:
    usage = Usage(1000, 0, units={"cacheWrite1h": 400})

    assert total_usd(usage, HOUR) == Decimal("0.007")
    assert [(line.name, line.quantity) for line in lines_of(usage, HOUR)] == [("input", 600), ("cacheWrite1h", 400)]


def test_a_unit_beside_the_tokens_without_a_price_makes_the_cost_a_minimum() -> None:
    usage = Usage(1000, 0, units={"webSearch": 2, "fileSearch": 1, "never heard of": 2.5})

    cost = resolve_cost(usage, HOUR, direct=False, reported=None, upstream_reported=None)

    assert (cost.total_usd, cost.is_minimum) == (Decimal("0.025"), True)
    assert [(line.name, line.rate_usd, line.amount_usd) for line in lines_of(usage, HOUR)] == [
        ("input", Decimal(5), Decimal("0.005")),
        ("webSearch", Decimal(10), Decimal("0.02")),
        ("fileSearch", None, Decimal(0)),
        ("never heard of", None, Decimal(0)),
    ]
    priced = Usage(1000, 0, units={"webSearch": 2})
    assert resolve_cost(priced, HOUR, direct=False, reported=None, upstream_reported=None).is_minimum is None


def test_tokens_are_not_free_where_only_other_units_have_a_price() -> None:
    whisper = replace(OPUS, rates=Rates((None,) * 7, {"audioSeconds": 100_000_000}))

    heard = resolve_cost(
        Usage(None, None, units={"audioSeconds": 12.345678}),
        whisper,
        direct=False,
        reported=None,
        upstream_reported=None,
    )
    unheard = resolve_cost(Usage(100, 5), whisper, direct=False, reported=None, upstream_reported=None)

    assert (heard.total_usd, heard.source) == (Decimal("0.0012345678"), CostSource.CATALOG)
    assert unheard.total_usd is None


def test_a_made_unit_takes_one_row_and_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Unit("hologram", "Holograms", "Made.", "Made.", measured=Measured.IMAGES)
    for table in (FURTHER, LINES):
        monkeypatch.setitem(table, row.name, row)
    usage = Usage(0, 0, units={"hologram": 3})

    assert read_rates("hologram 40")["hologram"] == 40
    priced = replace(OPUS, rates=Rates(OPUS.rates.picos, {"hologram": 40_000_000_000}))
    assert total_usd(usage, priced) == Decimal("0.12")
    assert [(line.name, line.per) for line in lines_of(usage, priced)] == [("hologram", 1000)]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({}, "0.0397155"),
        ({"tier": "standard"}, "0.0397155"),
        ({"tier": "batch"}, "0.01985775"),
        ({"tier": "fast"}, "0.079431"),
        ({"region": "US"}, "0.04368705"),
        ({"region": "eu"}, "0.0397155"),
        # Factors multiply.
        ({"tier": "batch", "region": "us"}, "0.021843525"),
        ({"at": MONDAY_PEAK}, "0.079431"),
        ({"at": MONDAY_PEAK, "tier": "batch"}, "0.0397155"),
        ({"at": SATURDAY_PEAK}, "0.0397155"),
        ({"at": datetime(2026, 11, 23, 4, tzinfo=UTC)}, "0.0397155"),
        ({"input_tokens": 200_000}, "0.0397155"),
        ({"input_tokens": 200_001}, "0.0448105"),
    ],
)
def test_a_variant_holds_for_runs_that_meet_its_conditions(run: dict[str, Any], expected: str) -> None:
    assert cost_of(RUN, VARIED, **run) == Decimal(expected)


def test_a_factor_is_on_tokens_and_not_on_searches() -> None:
    assert cost_of(Usage(1000, 0, units={"webSearch": 1}), VARIED, tier="batch") == Decimal("0.0125")


def test_what_tier_and_region_change_are_lines_that_add_up() -> None:
    price = price_for_run(VARIED, "batch", "us", MONDAY_PEAK, 0)

    lines = lines_of(RUN, price)

    assert [(line.name, line.amount_usd) for line in lines[-2:]] == [
        ("tier", Decimal("-0.0397155")),
        ("region", Decimal("0.00397155")),
    ]
    assert sum((line.amount_usd for line in lines), Decimal(0)) == total_usd(RUN, price) == Decimal("0.04368705")
    assert [one.when for one in price.applied] == [
        "tier batch",
        "region us",
        "hours 01:00-04:00 06:00-10:00; weekdays 1-5",
    ]


def test_a_tier_that_has_no_price_makes_an_estimate() -> None:
    assert price_for_run(VARIED, "priority", None, MONDAY, 0).estimated
    assert price_for_run(OPUS, "priority", None, MONDAY, 0).estimated
    assert not price_for_run(VARIED, "default", None, MONDAY, 0).estimated
    assert not price_for_run(VARIED, "batch", None, MONDAY, 0).estimated


def test_a_discount_is_also_off_what_variants_name() -> None:
    assert cost_of(RUN, discounted(VARIED, Decimal(10)), tier="fast") == Decimal("0.0714879")


@given(
    st.builds(
        Usage,
        st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.none(), st.none(), st.none(),
        st.dictionaries(st.sampled_from([*FURTHER, "made"]), st.integers(0, 10**9) | st.just(0.000001), max_size=5),
    ),
    st.sampled_from([None, "batch", "fast", "x"]),
    st.sampled_from([None, "us"]),
    st.sampled_from([MONDAY, MONDAY_PEAK]),
)  # fmt: skip
def test_lines_add_up_to_the_last_digit(usage: Usage, tier: str | None, region: str | None, at: datetime) -> None:
    price = price_for_run(VARIED, tier, region, at, usage.input_tokens or 0)

    assert sum((line.amount_usd for line in lines_of(usage, price)), Decimal(0)) == total_usd(usage, price)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("  tier Batch:   x 0.50 ", "tier batch: x 0.5"),
        ("tier priority fast: output $12.50 ,input 2.5", "tier priority fast: input 2.5, output 12.5"),
        ("region !global: x 1.1 # by litellm", "region !global: x 1.1 # by litellm"),
        ("weekdays 1 2 3 7;hours 22:00-01:00 : x 2", "hours 22:00-01:00; weekdays 1 2 3 7: x 2"),
        ("above 200,000: cacheWrite1h 0", "above 200000: cacheWrite1h 0"),
    ],
)
def test_a_variant_is_read_as_it_is_written(text: str, written: str) -> None:
    assert variants_text(read_variants(text)) == written
    assert variants_text(read_variants(written)) == written


@pytest.mark.parametrize(
    "text",
    [
        "batch: x 0.5", "tier batch x 0.5", "tier batch:", "tier batch: x", "tier batch: x -1", "tier batch: x 1e9",
        "tier: x 1", "tier a; tier b: x 1", "hours 25:00-26:00: x 1", "hours 01:00: x 1", "hours 01:00-01:00: x 1",
        "weekdays 0: x 1", "weekdays 5-1: x 1", "above 1 2: x 1", "above -1: x 1", "tier a: made 1", "tier a: input one",
        "tier a: input 0.0000001", "tier a: input NaN", "tier a: input 1, input 2", "x 2",
        "\n".join(f"tier t{number}: x 1" for number in range(21)),
    ],
)  # fmt: skip
def test_what_is_no_variant_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(InvalidRates, match=r"^[A-Z].*\.$"):
        read_variants(text)


@pytest.mark.parametrize(
    "text", ["webSearch", "webSearch ten", "made 1", "input 1", "webSearch 1, webSearch 2", "images -1"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidRates):
        read_rates(text)


def test_rates_are_written_in_the_order_of_units() -> None:
    assert rates_text(read_rates("images 40,\n webSearch $10.0 ,")) == "webSearch 10, images 40"


@pytest.mark.parametrize(
    ("provider", "model", "tier", "region", "expected"),
    [
        ("anthropic", "claude-opus-4-6", None, None, "30"),
        ("anthropic", "claude-opus-4-6", "batch", None, "15"),
        ("anthropic", "claude-opus-4-6", None, "us", "33"),
        ("anthropic", "claude-opus-4-5", None, "us", "30"),
        ("anthropic", "claude-opus-5", "fast", None, "60"),
        ("openai", "gpt-5", "flex", None, "5.625"),
        ("openai", "gpt-5", "priority", None, "22.5"),
        ("openai", "gpt-6.1-sol", "ultrafast", None, "72"),
        ("google", "gemini-2.5-flash", "flex", None, "1.4"),
        ("aws", "amazon.nova-pro-v1:0", "priority", None, "7"),
    ],
)
def test_the_catalogue_has_tiers_and_regions(  # noqa: PLR0913, PLR0917  # A run and its cost.
    catalogue_book: PriceBook, provider: str, model: str, tier: str | None, region: str | None, expected: str
) -> None:
    price = catalogue_book.price_for(provider, model, MONDAY, 1000)

    assert price is not None
    million = Usage(1_000_000, 1_000_000)
    varied = price_for_run(price, tier, region, MONDAY, 1000)
    assert (total_usd(million, varied), varied.estimated) == (Decimal(expected), False)


@pytest.mark.parametrize(
    ("provider", "model", "units", "expected"),
    [
        ("anthropic", "claude-opus-5", {"webSearch": 1000}, "10"),
        ("openai", "gpt-5", {"webSearch": 1000, "fileSearch": 1000, "codeExecution": 1}, "12.53"),
        ("google", "gemini-2.5-flash", {"grounding": 1000}, "35"),
        # The fee of the request, and what only one model charges for besides.
        ("perplexity", "sonar", {"searchQueries": 4, "citationTokens": 900}, "0.012"),
        ("perplexity", "sonar-deep-research", {"searchQueries": 18, "citationTokens": 20_016}, "0.130032"),
        ("x-ai", "grok-4.3", {"searchSources": 10}, "0.25"),
        ("cohere", "rerank-v3.5", {"searchUnits": 3}, "0.006"),
        ("openai", "whisper-1", {"audioSeconds": 60}, "0.006"),
        ("openai", "tts-1", {"characters": 1000}, "0.015"),
        ("mistral", "mistral-ocr-latest", {"pages": 2}, "0.008"),
    ],
)
def test_the_catalogue_prices_what_vendors_count_besides_tokens(
    catalogue_book: PriceBook, provider: str, model: str, units: dict[str, int | float], expected: str
) -> None:
    price = catalogue_book.price_for(provider, model, MONDAY, 0)

    assert price is not None
    usage = Usage(0, 0, units=units)
    assert (total_usd(usage, price), unpriced_units(usage, price)) == (Decimal(expected), ())


@pytest.mark.parametrize(("at", "expected"), [(MONDAY, "2.64"), (MONDAY_PEAK, "5.28"), (SATURDAY_PEAK, "2.64")])
def test_deepseek_costs_twice_in_some_hours_of_working_days(
    catalogue_book: PriceBook, at: datetime, expected: str
) -> None:
    price = catalogue_book.price_for("deepseek", "deepseek-v4-pro", at, 1000)

    assert price is not None
    assert cost_of(Usage(1_000_000, 1_000_000), price, at=at) == Decimal(expected)


@pytest.mark.parametrize(
    ("at", "expected"), [("2024-06-01", "0.42"), ("2025-09-10", "2.24"), ("2025-10-01", "0.7"), ("2026-11-01", "0.7")]
)
def test_a_name_of_the_newest_has_the_price_of_its_time(catalogue_book: PriceBook, at: str, expected: str) -> None:
    price = catalogue_book.price_for("deepseek", "deepseek-chat", datetime.fromisoformat(f"{at}T12:00:00Z"), 1000)

    assert price is not None
    assert total_usd(Usage(1_000_000, 1_000_000), price) == Decimal(expected)

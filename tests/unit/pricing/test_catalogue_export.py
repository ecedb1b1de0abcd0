"""The package's catalogue, turned into entries of the registry."""

import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from runtally.models.price import Match
from runtally.pricing.catalogue_export import checked_day, names_and_pattern
from runtally.pricing.catalogue_prices import BILLED_APART, FREE, Period, periods_of
from runtally.pricing.draft import CatalogueEntry
from runtally.pricing.rates import rates_text, read_rates, read_variants, variants_text

CHEAP = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2))
DEAR = ModelPrice(input_mtok=Decimal(3), output_mtok=Decimal(4))
CHEAP_TIERS = {0: {"input_per_million": Decimal(1), "output_per_million": Decimal(2)}}
DEAR_TIERS = {0: {"input_per_million": Decimal(3), "output_per_million": Decimal(4)}}


def matches(match: MatchLogic, name: str) -> bool:
    names, pattern = names_and_pattern(match)
    return name in names or (pattern is not None and re.fullmatch(pattern, name) is not None)


def model(
    prices: ModelPrice | list[ConditionalPrice], *, model_id: str = "large", comments: str | None = None
) -> ModelInfo:
    return ModelInfo(id=model_id, match=ClauseEquals(model_id), prices=prices, price_comments=comments)


@pytest.mark.parametrize(
    ("match", "inside", "outside"),
    [
        (ClauseEquals("gpt-4o"), ["gpt-4o"], ["gpt-4o-mini", "gpt-4"]),
        (
            ClauseStartsWith("gemini-3.6-flash"),
            ["gemini-3.6-flash", "gemini-3.6-flash-preview-05-20", "gemini-3.6-flash-001", "gemini-3.6-flash-latest"],
            ["gemini-3.6-flash-lite", "gemini-3.6-flash-8b", "gemini-3x6-flash", "x-gemini-3.6-flash"],
        ),
        (ClauseStartsWith("ft:gpt-4o-2024-"), ["ft:gpt-4o-2024-08-06:acme::abc"], ["ft:gpt-4o-mini-2024-07-18:a::b"]),
        (
            ClauseContains("claude-3-opus"),
            ["claude-3-opus", "anthropic/claude-3-opus@20240229", "us.anthropic.claude-3-opus-20240229-v1:0"],
            ["claude-3-opus-fast", "xclaude-3-opus"],
        ),
        (
            ClauseEndsWith("claude-opus-5"),
            ["claude-opus-5", "vertex/claude-opus-5"],
            ["claude-opus-5-5", "xclaude-opus-5"],
        ),
        (ClauseRegex(r"^grok-4\.3-\d{8}$"), ["grok-4.3-20260430"], ["grok-4.3-2026", "grok-4x3-20260430"]),
        (ClauseRegex("jev"), ["the-jev-1"], ["jew"]),
        (ClauseOr([ClauseEquals("o1"), ClauseStartsWith("o1-preview")]), ["o1", "o1-preview-2024-09-12"], ["o1-pro"]),
        (
            ClauseAnd([ClauseStartsWith("gemini-2.5-pro"), ClauseRegex(r"^(?!.*-tts(?:$|-))")]),
            ["gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"],
            ["gemini-2.5-pro-tts", "gemini-2.5-flash"],
        ),
    ],
)
def test_a_match_covers_revisions_and_nothing_else(match: MatchLogic, inside: list[str], outside: list[str]) -> None:
    assert [name for name in inside if not matches(match, name)] == []
    assert [name for name in outside if matches(match, name)] == []


def test_a_plain_price_has_one_period_without_end() -> None:
    assert periods_of("acme", model(CHEAP)) == [Period(None, None, CHEAP_TIERS)]


def test_a_new_price_starts_on_its_day_and_ends_the_one_before() -> None:
    day = date(2026, 8, 17)
    prices = [ConditionalPrice(prices=CHEAP), ConditionalPrice(StartDateConstraint(day), prices=DEAR)]

    assert periods_of("acme", model(prices)) == [Period(None, day, CHEAP_TIERS), Period(day, None, DEAR_TIERS)]


def test_a_period_that_is_not_priced_by_tokens_leaves_a_gap() -> None:
    first, second = date(2026, 1, 1), date(2026, 2, 1)
    prices = [
        ConditionalPrice(prices=CHEAP),
        ConditionalPrice(StartDateConstraint(first), prices=ModelPrice(web_searches_kcount=Decimal(1))),
        ConditionalPrice(StartDateConstraint(second), prices=DEAR),
    ]

    assert [(period.start, period.end) for period in periods_of("acme", model(prices))] == [
        (None, first),
        (second, None),
    ]


@pytest.mark.parametrize(
    ("end", "usual", "variant"),
    [
        (time(4), CHEAP_TIERS, "hours 01:00-04:00: input 3, output 4"),
        (time(22), DEAR_TIERS, "hours 22:00-01:00: input 1, output 2"),
    ],
)
def test_a_price_that_varies_by_hour_is_that_of_most_hours_with_a_variant(
    end: time, usual: dict[int, dict[str, Decimal]], variant: str
) -> None:
    hours = TimeOfDateConstraint(time(1, tzinfo=UTC), end.replace(tzinfo=UTC))
    prices = [ConditionalPrice(prices=CHEAP), ConditionalPrice(hours, prices=DEAR)]

    assert periods_of("acme", model(prices)) == [Period(None, None, {0: {**usual[0], "variants": variant}})]


def test_several_windows_of_a_price_are_one_variant_and_deepseeks_are_of_working_days() -> None:
    windows = [TimeOfDateConstraint(time(a, tzinfo=UTC), time(b, tzinfo=UTC)) for a, b in ((1, 4), (6, 10))]
    prices = [ConditionalPrice(prices=CHEAP), *(ConditionalPrice(one, prices=DEAR) for one in windows)]

    [period] = periods_of("deepseek", model(prices, model_id="deepseek-v4-pro"))

    assert period.tiers[0]["variants"] == "hours 01:00-04:00 06:00-10:00; weekdays 1-5: input 3, output 4"


def test_service_tiers_are_variants_of_the_period_that_they_begin_in() -> None:
    day = date(2027, 1, 1)
    tiers = [
        PriceVariant({"processing": "batch"}, DEAR, StartDateConstraint(day)),
        PriceVariant({"processing": "batch"}, CHEAP, StartDateConstraint(date(2026, 10, 14))),
        PriceVariant({"service_tier": "default"}, ModelPrice()),
        PriceVariant({"search_type": "fast"}, CHEAP),
        PriceVariant({"speed": "fast"}, ModelPrice(input_mtok=Decimal(9))),
    ]
    prices = [ConditionalPrice(prices=CHEAP), ConditionalPrice(StartDateConstraint(day), prices=DEAR)]
    varied = ModelInfo(id="large", match=ClauseEquals("large"), prices=prices, price_variants=tiers)

    assert [period.tiers[0]["variants"] for period in periods_of("acme", varied)] == [
        "tier batch: input 1, output 2\ntier fast: input 9",
        "tier batch: input 3, output 4\ntier fast: input 9",
    ]


def test_other_units_are_rates_of_an_entry_also_without_tokens() -> None:
    [spoken] = periods_of("acme", model(ModelPrice(audio_hours=Decimal("0.36"))))
    [searched] = periods_of("google", model(ModelPrice(input_mtok=Decimal(1), web_searches_kcount=Decimal(14))))

    assert spoken.tiers == {0: {"unit_rates": "audioSeconds 0.36"}}
    assert searched.tiers[0]["unit_rates"] == "webSearch 14, grounding 14, searchQueries 14"


def test_writing_for_an_hour_costs_twice_the_input_where_a_vendor_of_claude_names_only_five_minutes() -> None:
    price = ModelPrice(input_mtok=Decimal(3), output_mtok=Decimal(15), cache_write_mtok=Decimal("3.75"))

    units = [
        periods_of(provider, model(price, model_id=name))[0].tiers[0].get("unit_rates")
        for provider, name in (("aws", "claude-opus-4-5"), ("openai", "gpt-5.6"), ("acme", "claude-opus-4-5"))
    ]

    assert units == ["cacheWrite1h 6", "cacheWrite12h 7.5", None]


def test_tiers_have_a_price_for_everything() -> None:
    tiered = ModelPrice(
        input_mtok=TieredPrices(Decimal(1), [Tier(200_000, Decimal(2)), Tier(500_000, Decimal(3))]),
        cache_read_mtok=TieredPrices(Decimal("0.1"), [Tier(300_000, Decimal("0.2"))]),
        output_mtok=Decimal("0.13999999999999999"),
    )

    [period] = periods_of("acme", model(tiered))

    assert {above: tuple(map(str, prices.values())) for above, prices in period.tiers.items()} == {
        0: ("1.000000", "0.140000", "0.100000"),
        200_000: ("2.000000", "0.140000", "0.100000"),
        300_000: ("2.000000", "0.140000", "0.200000"),
        500_000: ("3.000000", "0.140000", "0.200000"),
    }


@pytest.mark.parametrize("extra", ["output_audio_mtok", "output_image_mtok"])
def test_a_bill_of_more_than_text_tokens_is_an_estimate(extra: str) -> None:
    [period] = periods_of("acme", model(ModelPrice(input_mtok=Decimal(1), **{extra: Decimal(5)})))

    assert (period.estimated, period.note) == (True, BILLED_APART)


def test_a_fee_for_each_request_is_a_separate_price() -> None:
    [period] = periods_of("acme", model(ModelPrice(input_mtok=Decimal(1), requests_kcount=Decimal(5))))

    assert (period.estimated, period.tiers[0]["per_thousand_requests"]) == (False, Decimal(5))


@pytest.mark.parametrize(
    "free", [model(ModelPrice(), model_id="large:free"), model(ModelPrice(), comments="Free of charge on the API.")]
)
def test_models_that_are_known_to_be_free_cost_nothing(free: ModelInfo) -> None:
    zero = {"input_per_million": Decimal(0), "output_per_million": Decimal(0)}

    assert periods_of("acme", free) == [Period(None, None, {0: zero}, note=FREE)]


@pytest.mark.parametrize("prices", [ModelPrice(), ModelPrice(web_searches_kcount=Decimal(1))])
def test_a_model_with_a_price_of_its_tools_alone_has_no_period(prices: ModelPrice) -> None:
    assert periods_of("acme", model(prices)) == []


def test_the_whole_catalogue_fits_the_registry(catalogue: list[CatalogueEntry]) -> None:
    keys = Counter(entry.catalogue_key for entry in catalogue)

    assert len(catalogue) > 2000
    assert keys.most_common(1)[0][1] == 1
    for entry in catalogue:
        assert (entry.match == Match.EXACT) == (entry.pattern is None)
        assert entry.effective_from is None or entry.effective_to is None or entry.effective_from < entry.effective_to
        assert all(amount is None or isinstance(amount, str) or 0 <= amount < 10**8 for amount in entry.amounts)
        assert rates_text(read_rates(entry.unit_rates)) == (entry.unit_rates or "")
        assert variants_text(read_variants(entry.variants)) == (entry.variants or "")
        assert any(amount is not None for amount in entry.amounts)
        re.compile(entry.pattern or "")


def test_a_name_belongs_to_one_model_of_a_provider(catalogue: list[CatalogueEntry]) -> None:
    owners: dict[tuple[str, str], set[str]] = {}
    for entry in catalogue:
        for name in (*entry.aliases, *([] if entry.pattern else [entry.model.lower()])):
            owners.setdefault((entry.provider, name), set()).add(entry.model)

    assert {name: models for name, models in owners.items() if len(models) > 1} == {}


def test_each_tier_is_a_separate_entry(catalogue: list[CatalogueEntry]) -> None:
    tiers = [entry for entry in catalogue if (entry.provider, entry.model) == ("google", "gemini-2.5-pro")]

    assert [(entry.catalogue_key, entry.above_input_tokens, entry.input_per_million) for entry in tiers] == [
        ("google/gemini-2.5-pro", 0, Decimal("1.25")),
        ("google/gemini-2.5-pro>200000", 200_000, Decimal("2.5")),
    ]


def test_a_past_price_ends(catalogue: list[CatalogueEntry]) -> None:
    [entry] = [entry for entry in catalogue if entry.catalogue_key == "deepseek/deepseek-chat@2024-05-06"]

    assert (entry.aliases, entry.effective_to) == (("deepseek-coder",), datetime(2025, 2, 8, 16, tzinfo=UTC))


def test_no_process_but_the_export_loads_the_package() -> None:
    program = (
        "import sys, runtally.services, runtally.pricing.catalogue, webapp.cli.prices;"
        "sys.exit('genai_prices' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603  # Our own text.


@pytest.mark.parametrize(
    ("comment", "day"),
    [
        ("Prices checked against https://example.com/docs on 2026-08-25.", date(2026, 8, 25)),
        ("No longer listed (checked 2026-10-09); verified again 2026-10-31.", date(2026, 10, 31)),
        ("Launched on Bedrock 2026-09-18.", None),
        ("Checked on 2026-02-31.", None),
        (None, None),
    ],
)
def test_the_day_of_a_check_is_read_where_a_comment_tells_it(comment: str | None, day: date | None) -> None:
    assert checked_day(comment) == day

"""What a run costs, from token counts and a price."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.run import CostSource
from runtally.money import MAX_USD
from runtally.pricing.cost import UNPRICED, Cost, Price, Rates, discounted, lines_of, resolve_cost, total_usd
from runtally.units import INPUT, TOKEN_KINDS, Usage

MAX_TOKENS = 2**53 - 1
MAX_PICO = 10**14 - 1

SONNET = Price(
    id=7,
    provider="anthropic",
    model="claude-3-5-sonnet",
    above_input_tokens=0,
    rates=Rates.of(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000),
    estimated=False,
)
REASONER = replace(SONNET, rates=Rates.of(input=3_000_000, output=15_000_000, reasoning=20_000_000))
SPEAKER = replace(
    SONNET,
    rates=Rates.of(
        input=3_000_000,
        output=15_000_000,
        cache_read=300_000,
        cache_write=3_750_000,
        audio_input=40_000_000,
        audio_output=80_000_000,
    ),
)
EMBEDDING = replace(SONNET, rates=Rates.of(input=3_000_000))

amounts = st.none() | st.integers(0, MAX_PICO)
counts = st.none() | st.integers(0, MAX_TOKENS)
prices: st.SearchStrategy[Price] = st.builds(
    replace,
    st.just(SONNET),
    rates=st.builds(Rates, st.tuples(*(amounts for _ in TOKEN_KINDS))),
    request_pico=st.integers(0, MAX_PICO),
)
usages = st.builds(Usage, *(counts for _ in TOKEN_KINDS))


@pytest.mark.parametrize(
    ("usage", "price", "expected"),
    [
        (Usage(1000, 500), SONNET, "0.0105"),
        (Usage(0, 0), SONNET, "0"),
        (Usage(None, None), SONNET, "0"),
        (Usage(None, 500), SONNET, "0.0075"),
        (Usage(1000, 0, cached_input_tokens=400), SONNET, "0.00192"),
        (Usage(1000, 0, cache_write_tokens=400), SONNET, "0.0033"),
        (Usage(1000, 0, cached_input_tokens=400, cache_write_tokens=600), SONNET, "0.00237"),
        # Without a price of its own a part costs what the whole costs.
        (Usage(1000, 0, cached_input_tokens=400), REASONER, "0.003"),
        (Usage(1000, 500, reasoning_tokens=200), SONNET, "0.0105"),
        (Usage(1000, 500, reasoning_tokens=200), REASONER, "0.0115"),
        (Usage(1000, 500, audio_input_tokens=400, audio_output_tokens=100), SONNET, "0.0105"),
        (Usage(1000, 500, audio_input_tokens=400, audio_output_tokens=100), SPEAKER, "0.0318"),
        (Usage(1000, 0, cached_input_tokens=500, audio_input_tokens=400), SPEAKER, "0.01645"),
        # A part that exceeds its whole is charged, and nothing of the whole is left.
        (Usage(100, 0, cached_input_tokens=400), SONNET, "0.00012"),
        (Usage(0, 100, reasoning_tokens=400), REASONER, "0.008"),
        (Usage(1000, 500), EMBEDDING, "0.003"),
        (Usage(1, 0), replace(SONNET, rates=Rates.of(input=1)), "0.000000000001"),
        (Usage(0, 1), replace(SONNET, rates=Rates.of(output=1)), "0.000000000001"),
    ],
)
def test_a_cost_is_tokens_times_price(usage: Usage, price: Price, expected: str) -> None:
    assert total_usd(usage, price) == Decimal(expected)


def test_lines_explain_a_cost() -> None:
    lines = lines_of(Usage(1000, 500, cached_input_tokens=400), SONNET)

    assert [
        (line.kind and line.kind.name, line.quantity, str(line.rate_usd), str(line.amount_usd)) for line in lines
    ] == [
        ("input", 600, "3.000000", "0.001800000000"),
        ("cached_input", 400, "0.300000", "0.000120000000"),
        ("output", 500, "15.000000", "0.007500000000"),
    ]


@given(usages, prices)
def test_the_lines_add_up_to_the_total(usage: Usage, price: Price) -> None:
    with localcontext(prec=60):
        assert sum((line.amount_usd for line in lines_of(usage, price)), Decimal(0)) == total_usd(usage, price)


@given(usages, prices)
def test_each_line_is_its_tokens_at_its_price_exactly(usage: Usage, price: Price) -> None:
    with localcontext(prec=60):
        for line in lines_of(usage, price):
            assert line.rate_usd is not None
            assert line.amount_usd == line.quantity * line.rate_usd / line.per


@given(usages, prices)
def test_a_cost_is_never_negative_and_fits_its_column(usage: Usage, price: Price) -> None:
    total = total_usd(usage, price)

    assert 0 <= total < MAX_USD * 10**14
    assert total.as_tuple().exponent == -12


@given(usages, prices)
def test_no_token_is_counted_twice(usage: Usage, price: Price) -> None:
    tokens = Counter({line.kind.name: line.quantity for line in lines_of(usage, price) if line.kind})
    parts = (usage.cached_input_tokens or 0) + (usage.cache_write_tokens or 0) + (usage.audio_input_tokens or 0)
    spoken = (usage.reasoning_tokens or 0) + (usage.audio_output_tokens or 0)

    counted = tokens["input"] + tokens["cached_input"] + tokens["cache_write"] + tokens["audio_input"]
    answered = tokens["output"] + tokens["reasoning"] + tokens["audio_output"]

    assert (usage.input_tokens or 0) <= counted <= max(usage.input_tokens or 0, parts)
    assert (usage.output_tokens or 0) <= answered <= max(usage.output_tokens or 0, spoken)


@given(prices, st.integers(0, MAX_TOKENS), st.integers(0, MAX_TOKENS), st.integers(0, MAX_TOKENS))
def test_costs_of_two_runs_add_up_to_the_cost_of_their_tokens(price: Price, first: int, second: int, out: int) -> None:
    with localcontext(prec=60):
        apart = total_usd(Usage(first, out), price) + total_usd(Usage(second, out), price)
        fee = total_usd(Usage(0, 0), price)

        assert apart == total_usd(Usage(first + second, 2 * out), price) + fee


@given(usages, prices, st.integers(0, MAX_TOKENS), st.integers(0, MAX_TOKENS))
def test_more_tokens_never_cost_less(usage: Usage, price: Price, more_in: int, more_out: int) -> None:
    more = replace(
        usage,
        input_tokens=(usage.input_tokens or 0) + more_in,
        output_tokens=(usage.output_tokens or 0) + more_out,
    )

    assert total_usd(more, price) >= total_usd(usage, price)


def test_a_fee_for_each_request_is_a_line_of_its_own() -> None:
    price = replace(SONNET, request_pico=5_000_000_000)

    *_, fee = lines_of(Usage(1000, 500), price)

    assert (fee.kind, fee.quantity, str(fee.rate_usd), fee.per) == (None, 1, "5.000000000", 1000)
    assert total_usd(Usage(1000, 500), price) == Decimal("0.0155")
    assert total_usd(Usage(None, None), price) == fee.amount_usd == Decimal("0.005")


@given(usages, prices, st.decimals("0.01", 100, places=2))
def test_a_discount_is_off_each_amount_and_costs_stay_exact(usage: Usage, price: Price, percent: Decimal) -> None:
    less = discounted(price, percent)

    with localcontext(prec=60):
        lines = lines_of(usage, less)
        assert sum((line.amount_usd for line in lines), Decimal(0)) == total_usd(usage, less)
        exact = total_usd(usage, price) * (100 - percent) / 100
        # Half a pico-dollar a token.
        most = sum(line.quantity for line in lines_of(usage, price)) * Decimal("0.5e-12")
        assert abs(total_usd(usage, less) - exact) <= most
    assert less.percent_off == percent


COUNTED = Usage(1000, 500)
COMPUTED = Cost(Decimal("0.0105"), CostSource.CATALOG, estimated=False, entry_id=7)
REPORTED = Decimal("0.02")
UPSTREAM = Decimal("0.03")


def _provider(amount: Decimal) -> Cost:
    return Cost(amount, CostSource.PROVIDER, estimated=False, entry_id=None)


def _estimate(amount: Decimal) -> Cost:
    return Cost(amount, CostSource.ESTIMATED, estimated=True, entry_id=None)


@pytest.mark.parametrize(
    ("direct", "reported", "upstream", "expected"),
    [
        (True, REPORTED, UPSTREAM, _provider(REPORTED)),
        (True, Decimal(0), UPSTREAM, _provider(UPSTREAM)),
        (True, None, UPSTREAM, _provider(UPSTREAM)),
        (True, Decimal(0), Decimal(0), COMPUTED),
        (True, None, None, COMPUTED),
        (False, REPORTED, UPSTREAM, COMPUTED),
        (False, None, UPSTREAM, COMPUTED),
    ],
)
def test_only_a_direct_provider_is_taken_at_its_word(
    direct: bool, reported: Decimal | None, upstream: Decimal | None, expected: Cost
) -> None:
    assert resolve_cost(COUNTED, SONNET, direct=direct, reported=reported, upstream_reported=upstream) == expected


@pytest.mark.parametrize(("reported", "expected"), [(REPORTED, _estimate(REPORTED)), (Decimal(0), UNPRICED)])
def test_without_a_price_a_reported_cost_is_an_estimate(reported: Decimal, expected: Cost) -> None:
    assert resolve_cost(COUNTED, None, direct=False, reported=reported, upstream_reported=UPSTREAM) == expected


def test_without_price_and_reported_cost_the_cost_is_unknown_not_zero() -> None:
    assert resolve_cost(COUNTED, None, direct=False, reported=None, upstream_reported=None) is UNPRICED


@pytest.mark.parametrize(
    ("usage", "reported", "expected"),
    [
        (Usage(None, None), REPORTED, _estimate(REPORTED)),
        (Usage(None, None), None, msgspec.structs.replace(COMPUTED, total_usd=Decimal(0), without_usage=True)),
        (Usage(0, 0), REPORTED, msgspec.structs.replace(COMPUTED, total_usd=Decimal(0))),
        (Usage(None, 0), REPORTED, msgspec.structs.replace(COMPUTED, total_usd=Decimal(0))),
        (Usage(1000, None), REPORTED, msgspec.structs.replace(COMPUTED, total_usd=Decimal("0.003"))),
        (Usage(None, 500), REPORTED, msgspec.structs.replace(COMPUTED, total_usd=Decimal("0.0075"))),
    ],
)
def test_a_reported_cost_is_used_if_no_tokens_are_known(usage: Usage, reported: Decimal | None, expected: Cost) -> None:
    assert resolve_cost(usage, SONNET, direct=False, reported=reported, upstream_reported=None) == expected


def test_an_estimated_price_makes_an_estimated_cost() -> None:
    cost = resolve_cost(COUNTED, replace(SONNET, estimated=True), direct=False, reported=None, upstream_reported=None)

    assert cost == msgspec.structs.replace(COMPUTED, estimated=True)


@pytest.mark.parametrize("function", [total_usd, lines_of])
def test_a_price_without_any_amount_is_free(function: Callable[[Usage, Price], object]) -> None:
    free = replace(SONNET, rates=Rates.of())

    assert total_usd(COUNTED, free) == 0
    assert [line.amount_usd for line in lines_of(COUNTED, free)] == [0, 0]
    assert function(Usage(0, 0), free) in {Decimal(0), ()}


@pytest.mark.parametrize(
    ("usage", "saved"),
    [
        (Usage(1_000_000, 5, cached_input_tokens=400_000), "1.08"),
        (Usage(1_000_000, 5, cache_write_tokens=200_000), "-0.15"),
        (Usage(1_000_000, 5, cached_input_tokens=400_000, cache_write_tokens=200_000), "0.93"),
        # A client whose input tokens are those that no cache had.
        (Usage(100, 5, cached_input_tokens=400_000), "1.08"),
        (Usage(None, 5, cached_input_tokens=400_000, cache_write_tokens=200_000), "0.93"),
    ],
)
def test_a_cache_saved_the_difference_to_the_cost_of_plain_input(usage: Usage, saved: str) -> None:
    cost = resolve_cost(usage, SONNET, direct=False, reported=None, upstream_reported=None)

    assert cost.cache_savings_usd == Decimal(saved)


@given(usage=usages, price=prices)
def test_cost_and_savings_add_up_to_the_cost_without_a_cache(usage: Usage, price: Price) -> None:
    cost = resolve_cost(usage, price, direct=False, reported=None, upstream_reported=None)
    parts = {
        kind: getattr(usage, kind.count_column) or 0
        for kind in TOKEN_KINDS
        if kind.part_of is INPUT and price.rates[kind] is not None
    }
    # A client that reports more parts than the whole has sent these parts.
    sent = max(usage.input_tokens or 0, sum(parts.values()))
    plain = replace(usage, input_tokens=sent, cached_input_tokens=None, cache_write_tokens=None)

    with localcontext(prec=60):
        assert (cost.total_usd or 0) + (cost.cache_savings_usd or 0) == total_usd(plain, price)


def test_savings_are_unknown_without_cached_tokens_or_a_price() -> None:
    plain, cached = Usage(10, 5), Usage(10, 5, cached_input_tokens=5)

    assert resolve_cost(plain, SONNET, direct=False, reported=None, upstream_reported=None).cache_savings_usd is None
    assert (
        resolve_cost(cached, None, direct=False, reported=Decimal(1), upstream_reported=None).cache_savings_usd is None
    )


def test_a_part_that_is_free_is_a_line_of_nothing_and_the_lines_still_add_up() -> None:
    price = replace(SONNET, rates=Rates.of(input=3_000_000, output=15_000_000, cache_read=0))
    usage = Usage(1000, 0, 400)

    lines = {line.kind.name: line for line in lines_of(usage, price) if line.kind}

    assert total_usd(usage, price) == Decimal("0.0018") == sum(line.amount_usd for line in lines.values())
    assert sorted(str(line.amount_usd.normalize()) for line in lines.values()) == ["0", "0.0018"]


def test_rates_have_an_amount_or_none_for_each_kind_of_tokens() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Rates((1,) * (len(TOKEN_KINDS) - 1))


def test_an_amount_for_a_kind_of_tokens_that_is_none_is_refused_not_ignored() -> None:
    with pytest.raises(TypeError, match="No kind of tokens is priced as cached, inputs"):
        Rates.of(inputs=1, output=2, cached=3)

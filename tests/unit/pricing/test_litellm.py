"""The engine compared with litellm's price map: its arithmetic at their prices, and the registry's prices with theirs."""

import pytest

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Rates, total_usd
from runtally.pricing.match import PriceCandidate
from tests.unit.pricing.candidates import make_candidate
from tests.unit.pricing.litellm_compared import AT, MIXES, MOST_A_TOKEN, Reason, compared, pico, usage
from tests.unit.pricing.litellm_costs import Model, models


@pytest.fixture(scope="module")
def known() -> list[Model]:
    return models()


def test_the_engine_adds_up_their_prices_as_they_do(known: list[Model]) -> None:
    book = PriceBook(candidate for number, model in enumerate(known) for candidate in _candidates(number, model))
    differing = []
    for model in known:
        for mix in MIXES:
            price = book.price_for(model.provider, model.name, AT, mix["input"])
            assert price is not None
            theirs = model.rates_for(mix["input"]).cost(mix)
            if abs(total_usd(usage(mix), price) - theirs) > sum(mix.values()) * MOST_A_TOKEN:
                differing.append((model.name, mix, total_usd(usage(mix), price), theirs))

    assert len(known) > 1000
    assert differing == []


def test_costs_differ_from_litellms_only_where_the_prices_do(known: list[Model], catalogue_book: PriceBook) -> None:
    same, differing = compared(known, catalogue_book)

    report = "\n".join(f"{reason}: {len(found)}, such as {found[:5]}" for reason, found in differing.items())
    assert not differing[Reason.UNEXPLAINED], report
    assert len(same) >= 500, report
    assert sum(same.values()) > sum(len(found) for reason, found in differing.items() if reason is not Reason.UNKNOWN)


def _candidates(number: int, model: Model) -> list[PriceCandidate]:
    return [
        make_candidate(
            model.provider.replace("_", "-"),
            model.name,
            number=number,
            above_input_tokens=above,
            rates=Rates.of(
                input=pico(rates.input),
                output=pico(rates.output),
                cache_read=pico(rates.cache_read),
                cache_write=pico(rates.cache_write),
                reasoning=pico(rates.reasoning),
                audio_input=pico(rates.audio_input),
                audio_output=pico(rates.audio_output),
            ),
        )
        for above, rates in {0: model.rates, **model.tiers}.items()
    ]

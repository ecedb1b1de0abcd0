"""The amounts of an entry, a draft or a row: as a price to compute with, and by name to list and compare. Pure."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from runtally.models.price import AMOUNT_COLUMNS
from runtally.money import pico_per_token
from runtally.pricing.cost import THOUSAND, Price, Rates
from runtally.pricing.rates import pico_per_unit, read_rates, read_variants
from runtally.units import FURTHER, PRICE_COLUMNS


def price_of(value: Callable[[str], Any], **fields: Any) -> Price:  # noqa: ANN401  # The other fields of a price.
    """Build a price of the columns that `value` returns by name."""
    return Price(
        rates=Rates(
            tuple(_pico(value(name)) for name in PRICE_COLUMNS),
            {name: pico_per_unit(FURTHER[name], usd) for name, usd in read_rates(value("unit_rates")).items()},
        ),
        request_pico=THOUSAND * (_pico(value("per_thousand_requests")) or 0),
        variants=read_variants(value("variants")),
        **fields,
    )


def amounts_of(value: Callable[[str], Any]) -> Iterator[tuple[str, Decimal]]:
    """Yield each amount in US dollars by the name of its column or unit."""
    for name in AMOUNT_COLUMNS:
        if (usd := value(name)) is not None:
            yield name, usd
    yield from read_rates(value("unit_rates")).items()


def _pico(per_million: Decimal | None) -> int | None:
    return None if per_million is None else pico_per_token(per_million)

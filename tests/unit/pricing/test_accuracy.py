"""The engine compared with genai-prices' own arithmetic: every model of its catalogue, with several mixes of tokens.

Both start from the same prices, so this is about periods, tiers, what is part of what, and decimals; not about the prices.
"""

import json
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from runtally.files import CHECKOUT
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import price_for_run, total_usd
from runtally.units import Usage

AT = datetime(2026, 11, 1, 20, tzinfo=UTC)
MIXES = (
    {"input_tokens": 1000, "output_tokens": 500},
    {"input_tokens": 150_000, "output_tokens": 1},
    {"input_tokens": 1_500_000, "output_tokens": 70_000},
    {"input_tokens": 10_000, "output_tokens": 100, "cache_read_tokens": 7000},
    {"input_tokens": 10_000, "output_tokens": 100, "cache_read_tokens": 3000, "cache_write_tokens": 2000},
    {"input_tokens": 0, "output_tokens": 12_345},
    {"input_tokens": 2000, "output_tokens": 800, "input_audio_tokens": 1500, "output_audio_tokens": 600},
)
# Half of the seventh decimal of a price per million is half a pico-dollar a token.
MOST_A_TOKEN = Decimal("0.5e-12")


class Reason(StrEnum):
    """Why the two differ, where they may."""

    PRICE_HAS_MORE_DECIMALS = "genai-prices has more than 6 decimals per million, often of a binary float"
    CORRECTED = "the vendor's page has another price by now"
    NO_PRICE_IN_TOKENS = "genai-prices says 0 for what has no price in tokens; that is unknown, not free"
    NOT_FOUND_BY_ITS_OWN_NAME = "genai-prices does not find the model by its own id"
    UNEXPLAINED = "unexplained"


def test_costs_are_those_of_genai_prices(catalogue_book: PriceBook) -> None:
    corrected = {("deepseek", "deepseek-chat"), ("deepseek", "deepseek-reasoner")}
    same: set[tuple[str, str]] = set()
    differing: dict[Reason, list[tuple[object, ...]]] = defaultdict(list)

    for provider, model, number, theirs in _theirs():
        ours = _ours(catalogue_book, provider, model, MIXES[number])
        if ours == theirs:
            same.add((provider, model))
        else:
            reason = _reason(ours, theirs, MIXES[number], is_corrected=(provider, model) in corrected)
            differing[reason].append((provider, model, number, ours, theirs))

    report = "\n".join(f"{reason}: {len(found)}, such as {found[:5]}" for reason, found in differing.items())
    assert not differing[Reason.UNEXPLAINED], report
    assert len(same) > 2000, report
    # Each explanation stays one for a few.
    assert sum(map(len, differing.values())) < len(same) / 2, report


def _theirs() -> list[tuple[str, str, int, Decimal | None]]:
    process = subprocess.run(  # noqa: S603  # Our own module.
        [sys.executable, "-m", "tests.unit.pricing.genai_costs", AT.isoformat()],
        input=json.dumps(MIXES),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in process.stdout.splitlines()]
    return [(*rest, None if cost is None else Decimal(cost)) for *rest, cost in found]


def _ours(book: PriceBook, provider: str, model: str, mix: dict[str, int]) -> Decimal | None:
    price = book.price_for(provider, model, AT, mix["input_tokens"])
    if price is None:
        return None
    usage = Usage(
        mix["input_tokens"],
        mix["output_tokens"],
        mix.get("cache_read_tokens"),
        mix.get("cache_write_tokens"),
        audio_input_tokens=mix.get("input_audio_tokens"),
        audio_output_tokens=mix.get("output_audio_tokens"),
    )
    return total_usd(usage, price_for_run(price, None, None, AT, mix["input_tokens"]))


def _reason(ours: Decimal | None, theirs: Decimal | None, mix: dict[str, int], *, is_corrected: bool) -> Reason:
    if theirs is None:
        return Reason.NOT_FOUND_BY_ITS_OWN_NAME
    if ours is None:
        return Reason.NO_PRICE_IN_TOKENS if theirs == 0 else Reason.UNEXPLAINED
    if is_corrected:
        return Reason.CORRECTED
    most = sum(mix.values()) * MOST_A_TOKEN
    return Reason.PRICE_HAS_MORE_DECIMALS if abs(ours - theirs) <= most else Reason.UNEXPLAINED

"""Past prices that the catalogue dropped or never had, for runs that are imported later.

They were publicly known at the time and cannot be looked up any more, so a cost computed from them is an estimate. None
of them is in force for today's models.
"""

from datetime import UTC, datetime
from decimal import Decimal

from runtally.models.price import Match
from runtally.pricing.catalogue_entry import CatalogueEntry, key_of

_DEEPSEEK_V2 = datetime(2024, 5, 6, tzinfo=UTC)
_END_OF_DEEPSEEK_V3_OFFER = datetime(2025, 2, 8, 16, tzinfo=UTC)
_FIREWORKS_PER_MILLION = Decimal("0.9")

HISTORY = (
    CatalogueEntry(
        provider="deepseek",
        model="deepseek-chat",
        aliases=("deepseek-coder",),
        match=Match.EXACT,
        input_per_million=Decimal("0.14"),
        output_per_million=Decimal("0.28"),
        cache_read_per_million=Decimal("0.014"),
        effective_from=_DEEPSEEK_V2,
        effective_to=_END_OF_DEEPSEEK_V3_OFFER,
        catalogue_key=key_of("deepseek", "deepseek-chat", _DEEPSEEK_V2.date(), 0),
        estimated=True,
        note="Price of its time, until 2025-02-08.",
    ),
    *(
        CatalogueEntry(
            provider="fireworks",
            model=model,
            aliases=(f"accounts/fireworks/models/{model}",),
            match=Match.EXACT,
            input_per_million=_FIREWORKS_PER_MILLION,
            output_per_million=_FIREWORKS_PER_MILLION,
            catalogue_key=key_of("fireworks", model, None, 0),
            estimated=True,
            note="No longer offered; price of its time.",
        )
        for model in ("deepseek-v3", "qwen2p5-coder-32b-instruct")
    ),
)

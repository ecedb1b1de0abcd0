"""Models in use without a price, for the admin to enter next."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from quart import url_for

from runtally.pricing.queries import UsedModel
from webapp import formats
from webapp.pages.runs.views import runs_url

SHOWN = 200


class UnpricedRow(Struct, frozen=True):
    """A model without a price; `kept` says that its runs have the cost that the client reported."""

    provider: str
    model: str
    runs: str
    kept: str
    tokens: str
    last_used: str
    add_url: str
    runs_url: str


def unpriced_rows(models: Sequence[UsedModel], now: datetime) -> tuple[UnpricedRow, ...]:
    """Return the most used of these models."""
    return tuple(_row(one, now) for one in models[:SHOWN])


def _row(one: UsedModel, now: datetime) -> UnpricedRow:
    kept = one.runs - one.unpriced
    return UnpricedRow(
        provider=one.provider,
        model=one.model,
        runs=formats.runs(one.runs),
        kept=f"{formats.count(kept)} at the cost reported" if kept else "",
        tokens=f"{formats.tokens(one.input_tokens)} in · {formats.tokens(one.output_tokens)} out",
        last_used=formats.ago(one.last_used_at, now),
        add_url=url_for("price_forms.new", provider=one.provider, model=one.model),
        runs_url=runs_url(provider=one.provider, model=one.model),
    )

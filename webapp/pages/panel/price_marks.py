"""Price changes as marks on the cost chart."""

from collections.abc import Iterator

from runtally.money import USD_DECIMALS, from_pico
from runtally.pricing.book import PriceBook
from runtally.pricing.changes import PriceChange, changes_of
from runtally.pricing.cost import Price
from runtally.tokens import TOKEN_KINDS
from runtally.usage.summary import Summary
from webapp import formats
from webapp.charts.drawing import Mark

_MILLION = USD_DECIMALS // 2


def price_marks(summary: Summary, book: PriceBook, project_id: str | None) -> tuple[Mark, ...]:
    """List the moments when models of this summary got another price."""
    window, models = summary.window, [(provider, model) for provider, model in summary.groups]
    changes = changes_of(models, book, window.start, window.until, project_id)
    return tuple(Mark((change.at - window.start) / window.interval, _words(change)) for change in changes)


def _words(change: PriceChange) -> str:
    """16 Nov, gpt-x: input $3.00 to $2.00, per million tokens."""
    when = f"{formats.date(change.at)}, {change.model}"
    if change.before is None:
        return f"{when}: has a price from here on"
    if change.after is None:
        return f"{when}: has no price from here on"
    amounts = ", ".join(_amounts(change.before, change.after))
    return f"{when}: {amounts or 'another fee for each request'}"


def _amounts(before: Price, after: Price) -> Iterator[str]:
    for kind in TOKEN_KINDS:
        old, new = before.rates[kind], after.rates[kind]
        if old != new:
            yield f"{kind.label.lower()} {_dollars(old)} \u2192 {_dollars(new)}"


def _dollars(pico: int | None) -> str:
    """Per million tokens."""
    return formats.NOTHING if pico is None else formats.money_exact(from_pico(pico).scaleb(_MILLION))

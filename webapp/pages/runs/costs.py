"""Describe the cost of a run: tokens times price line by line, the price, and the client's own figure."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from msgspec import Struct
from quart import url_for

from api.current import actor
from runtally.access.scopes import Scope, may
from runtally.models.price import PriceSource
from runtally.models.run import CostSource, StoredRun
from runtally.money import plain
from runtally.pricing.cost import MILLION, Line, Price
from runtally.pricing.match import PriceCandidate
from runtally.pricing.rates import per_text
from runtally.runs.read import Explanation
from webapp import formats
from webapp.formats import Write

CHANGES = ("tier", "region")
"""The lines of what a service tier and a region change, which have no quantity."""
NAMES = {"request": "Fee for the request", "tier": "Service tier", "region": "Region"}
NO_PRICE = "no price"
UNPRICED = "No price is known for this model, so the cost is unknown. It is computed as soon as a price is added."
WITHOUT_USAGE = "The run reports neither tokens nor other units nor a cost, as after a broken stream. What it really cost is not known."
TRUSTED = "The provider reported this cost with the run."
KEPT = "No price was known for this model, so the cost that the client reported is kept as an estimate."
ENTRY_GONE = "The price it was computed from no longer exists."
CHANGED = (
    "The entry or its discount was changed after the run was priced, so the lines don't add up to the stored cost."
)


class CostLine(Struct, frozen=True):
    """A line of a cost, formatted: `quantity` at `price` is `amount`."""

    name: str
    quantity: str
    price: str
    amount: str


class PriceNote(Struct, frozen=True):
    """The price entry that the lines use."""

    name: str
    since: str
    source: str
    tier: str | None
    url: str | None
    """Its page, for those who may open it."""
    off: str | None
    """The discount of the project."""
    variants: tuple[str, ...] = ()
    """The variants that hold for the run."""


class CostCard(Struct, frozen=True):
    """The cost of a run and how it comes about."""

    total: str
    lines: tuple[CostLine, ...]
    price: PriceNote | None
    note: str | None
    reported: str | None
    difference: str | None
    add_price_url: str | None
    """The URL to add the missing price, for readers who may."""


def cost_of(run: StoredRun, explanation: Explanation) -> CostCard:
    candidate = explanation.candidate
    return CostCard(
        total="no price" if run.cost_usd is None else formats.beside(formats.money_exact(run.cost_usd), run.cost_usd),
        lines=cost_lines(explanation.lines),
        price=price_note(candidate, explanation.price) if candidate and explanation.price else None,
        note=_note(run, explanation),
        reported=None if run.reported_cost_usd is None else formats.money_exact(run.reported_cost_usd),
        difference=_difference(run),
        add_price_url=_add_price_url(run),
    )


def _add_price_url(run: StoredRun) -> str | None:
    if run.cost_usd is not None or not may(actor(), Scope.ADMIN, None):
        return None
    return url_for("price_forms.new", provider=run.provider, model=run.model)


def _note(run: StoredRun, explanation: Explanation) -> str | None:
    match run.cost_source:
        case None:
            return UNPRICED
        case CostSource.PROVIDER:
            return TRUSTED
        case CostSource.ESTIMATED:
            return KEPT
        case CostSource.CATALOG if run.without_usage:
            return WITHOUT_USAGE
        case CostSource.CATALOG if explanation.candidate is None:
            return ENTRY_GONE
        case _:
            return None if explanation.accounts_for(run) else CHANGED


def cost_lines(lines: Sequence[Line]) -> tuple[CostLine, ...]:
    """Return the lines of a cost, with points in one line."""
    rate = formats.column_exact_money(line.rate_usd for line in lines if line.rate_usd is not None)
    amount = formats.column_exact_money(line.amount_usd for line in lines)
    return tuple(
        CostLine(
            line_name(line),
            "" if line.name in CHANGES else f"{line.quantity:,}",
            _rate(line, rate),
            NO_PRICE if line.rate_usd is None else amount(line.amount_usd),
        )
        for line in lines
    )


def line_name(line: Line) -> str:
    """Return what a line is for; a unit that is not known has its own name."""
    return line.kind.label if line.kind else NAMES.get(line.name, line.name)


def _rate(line: Line, write: Write) -> str:
    if line.name in CHANGES:
        return ""
    if line.rate_usd is None:
        return NO_PRICE
    return write(line.rate_usd) + (
        "" if line.per == MILLION else f" {per_text(line.kind)}" if line.kind else " per thousand"
    )


def price_note(candidate: PriceCandidate, price: Price) -> PriceNote:
    above = price.above_input_tokens
    return PriceNote(
        name=f"{price.provider} {price.model}",
        since=_since(price.effective_from, price.effective_to),
        source="Catalogue price" if candidate.source is PriceSource.CATALOGUE else "Price set by an admin",
        tier=f"for more than {formats.count(above)} input tokens" if above else None,
        url=url_for("price.price", entry_id=price.id) if may(actor(), Scope.ADMIN, None) else None,
        off=f"{plain(price.percent_off)}% off" if price.percent_off is not None else None,
        variants=tuple(variant.text for variant in price.applied),
    )


def _since(start: datetime | None, end: datetime | None) -> str:
    began = "" if start is None else f"in force since {formats.date(start)} {start.year}"
    if end is None:
        return began or "no end date"
    return f"{began or 'in force'} until {formats.date(end)} {end.year}"


def _difference(run: StoredRun) -> str | None:
    """Describe how the cost differs from the client's; None without both, or if the cost is the client's."""
    if run.cost_usd is None or run.reported_cost_usd is None or run.cost_source != CostSource.CATALOG:
        return None
    apart = run.cost_usd - run.reported_cost_usd
    if apart == Decimal(0):
        return "the same"
    return f"{formats.money_exact(abs(apart))} {'more' if apart > 0 else 'less'} than reported"

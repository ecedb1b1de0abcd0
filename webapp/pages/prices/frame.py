"""The common part of the pages about prices: their tabs, the description of a price, and names that forms suggest."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from msgspec import Struct
from quart import url_for

from api.current import services
from runtally.db.database import Connection
from runtally.errors import InvalidPrice
from runtally.models.price import PriceEntry, PriceSource
from runtally.pricing.draft import amounts_of, read_time
from runtally.pricing.queries import select_priced_names
from runtally.pricing.rates import Variant, per_text, read_variants
from runtally.runs.scan import select_names
from runtally.units import FURTHER_UNITS, TOKEN_KINDS, Measured
from runtally.usage.snapshots import Snapshots
from webapp import formats
from webapp.pages.admin.frame import Frame, frame
from webapp.pages.panel.narrowing import Choice

SECTIONS = (
    ("Prices", "prices.prices"),
    ("Discounts", "price_discounts.discounts"),
    ("Repricing", "repricing.repricings"),
    ("Currency", "currency.rates"),
    ("Import and export", "price_catalogue.form"),
)
LISTED = ("input_per_million", "output_per_million", "cache_read_per_million", "cache_write_per_million")
"""The amounts that most prices have are columns of a table; the others are listed by name."""
AMOUNT_NAMES = {
    **{kind.price_column: kind.label for kind in TOKEN_KINDS},
    "per_thousand_requests": "Per 1,000 requests",
    **{
        unit.name: unit.label if unit.measured is Measured.TOKENS else f"{unit.label}, {per_text(unit)}"
        for unit in FURTHER_UNITS
    },
}
"""What amounts are for, by column or unit."""

LISTED_NAMES = tuple(AMOUNT_NAMES[column] for column in LISTED)


class PricesFrame(Struct, frozen=True):
    """The heading of the admin pages, and links between those about prices."""

    admin: Frame
    sections: tuple[Choice, ...]


def prices_frame(endpoint: str) -> PricesFrame:
    """Return the frame of the page at this endpoint."""
    sections = tuple(Choice(name, url_for(section), section == endpoint) for name, section in SECTIONS)
    return PricesFrame(frame("prices.prices"), sections)


class PriceRow(Struct, frozen=True):
    """An entry of the registry as a row of a table."""

    id: int
    url: str
    provider: str
    model: str
    scope: str
    """The runs that it applies to, where these are not all runs of the model."""
    amounts: tuple[str, ...]
    """The amounts in the order of `LISTED`."""
    others: str
    """The other amounts that it has."""
    runs: str
    """The number of runs of the models that it prices now."""
    period: str
    source: str
    state: str
    """`in force`, or why it is not."""
    is_current: bool


def rows_of(
    entries: Iterable[PriceEntry], now: datetime, runs: Mapping[int, int | None] | None = None
) -> tuple[PriceRow, ...]:
    """Convert entries to rows, with the numbers of runs that `registry.list_in_use` returns, if passed."""
    return tuple(_row(entry, now, (runs or {}).get(entry.id or 0)) for entry in entries)


def _row(entry: PriceEntry, now: datetime, runs: int | None) -> PriceRow:
    state = state_of(entry, now)
    others = [(AMOUNT_NAMES[name], usd) for name, usd in amounts_of(entry) if name not in LISTED]
    return PriceRow(
        id=entry.id or 0,
        url=url_for("price.price", entry_id=entry.id),
        provider=entry.provider,
        model=entry.model,
        scope=" · ".join(scope_of(entry)),
        amounts=tuple(amount(getattr(entry, name)) for name in LISTED),
        others=" \u00b7 ".join(
            (*(f"{name.lower()} {amount(usd)}" for name, usd in others), *_number_of_variants(entry))
        ),
        runs=formats.count(runs),
        period=period_of(entry.effective_from, entry.effective_to),
        source=source_of(entry),
        state=state,
        is_current=state == "in force",
    )


def _number_of_variants(entry: PriceEntry) -> Iterator[str]:
    if number := len(variants_of(entry)):
        yield "1 variant" if number == 1 else f"{number} variants"


def variants_of(entry: PriceEntry) -> tuple[Variant, ...]:
    return read_variants(entry.variants)


def scope_of(entry: PriceEntry) -> tuple[str, ...]:
    project = (f"only {entry.project_id}",) if entry.project_id else ()
    tier = (f"over {formats.count(entry.above_input_tokens)} input tokens",) if entry.above_input_tokens else ()
    return project + tier


def amount(usd: Decimal | None) -> str:
    return formats.NOTHING if usd is None else formats.money_exact(usd)


def period_of(start: datetime | None, end: datetime | None) -> str:
    if start is None and end is None:
        return "always"
    if end is None:
        return f"from {day(start)}"
    return f"until {day(end)}" if start is None else f"{day(start)} to {day(end)}"


def day(at: datetime | None) -> str:
    """17 Jun 2025, with the time where it is not midnight."""
    if at is None:
        return ""
    clock = formats.clock(at)
    return f"{formats.date(at)} {at.year}{'' if clock == '00:00' else f', {clock}'}"


def time_in(text: str, name: str) -> datetime | None:
    """Read a time of a form's field; None for an empty one. Raises `InvalidPrice`."""
    try:
        return read_time(text)
    except (ValueError, OverflowError):
        raise InvalidPrice.at(name, "Enter a date such as 2026-12-01 (UTC), or leave it empty.") from None


def state_of(entry: PriceEntry, now: datetime) -> str:
    if entry.withdrawn_at is not None:
        return "withdrawn"
    if entry.effective_to is not None and entry.effective_to <= now:
        return "over"
    if entry.effective_from is not None and entry.effective_from > now:
        return "scheduled"
    return "in force"


def source_of(entry: PriceEntry) -> str:
    """Who set the price: an entry of the catalogue stays one when an admin ends it or changes its names."""
    source = entry.author or ("catalogue" if entry.source == PriceSource.CATALOGUE else "catalogue, edited")
    return f"{source}, estimate" if entry.estimated else source


_MOST_NAMES = 400


class Names(Struct, frozen=True):
    """Providers, and models with their provider."""

    providers: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()


async def names_of(control: Connection, snapshots: Snapshots, project_id: str | None = None) -> Names:
    """Return the names that most of a project's runs have, or of those of all projects, before the vendors' other models."""
    of_each = await snapshots.of_each(lambda connection: select_names(connection, project_id, _MOST_NAMES))
    used = dict.fromkeys(name for of_one in of_each for name in of_one)
    providers = tuple(dict.fromkeys(provider for provider, _ in used))
    priced = await select_priced_names(control, providers, _MOST_NAMES)
    return Names(providers, tuple(dict.fromkeys((*used, *priced))))


async def names_in_use() -> Names:
    """Return the names of all projects, for a form of an admin."""
    async with services().cells.snapshots(None) as snapshots, services().open_control(snapshots) as control:
        return await names_of(control, snapshots)

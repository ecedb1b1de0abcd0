"""The currency of a page's amounts: dollars, or what an admin set, by one rate for the whole page.

It is the rate of the last day that the page shows, so that a figure and the sum of its parts agree, and a change against the
time before is one of what was used.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from markupsafe import Markup
from msgspec import Struct
from quart import request

import api
from api.current import services
from runtally.money import converted, plain
from runtally.pricing.currency import Rate, rate_on
from webapp.zone import calendar_in, in_utc

# What vendors charge is in dollars, and is compared with their price lists and invoices.
_IN_DOLLARS = ("/admin/prices", "/admin/bills", "/admin/repricings")
_SIGNS = {"EUR": "€", "GBP": "£", "INR": "₹", "JPY": "¥", "KRW": "₩", "CAD": "CA$", "AUD": "A$"}
_WITHOUT_CENTS = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_CENT_DECIMALS = 2


class Amount(str):
    """An amount in another currency than dollars. On a page, who points at it sees the dollars and the rate."""

    __slots__ = ("dollars",)
    dollars: str

    def __html__(self) -> str:
        return Markup('<span title="{}">{}</span>').format(self.dollars, str(self))


class Unit(Struct, frozen=True):
    """A currency, how it is written, and what a dollar is worth in it, since which day."""

    code: str = "USD"
    sign: str = "$"
    rate: Decimal = Decimal(1)
    since: date = date.min
    decimals: int = _CENT_DECIMALS
    """The decimals of amounts of one or more: none where there are no cents."""

    @classmethod
    def at(cls, rate: Rate) -> "Unit":
        sign = _SIGNS.get(rate.currency, f"{rate.currency}\u00a0")
        return cls(rate.currency, sign, rate.per_usd, rate.since, 0 if rate.currency in _WITHOUT_CENTS else 2)

    @property
    def smallest(self) -> Decimal:
        """The smallest amount that is written in figures."""
        return Decimal("0.0001").scaleb(_CENT_DECIMALS - self.decimals)

    @property
    def words(self) -> str:
        return f"1 USD = {plain(self.rate)} {self.code}"

    def of(self, amount_usd: Decimal) -> Decimal:
        """Return what so many dollars are; exactly, so that parts add up."""
        return amount_usd if self is DOLLARS else converted(amount_usd, self.rate)

    def marked(self, text: str, dollars: str) -> str:
        """Return an amount that was written in this currency, with the dollars that it is."""
        amount = Amount(text)
        amount.dollars = f"{dollars} at {self.words}"
        return amount


DOLLARS = Unit()


class _Use:
    """The currency of a page, and whether any amount of it was written yet."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.is_made = False


_current: ContextVar[_Use] = ContextVar("currency", default=_Use(DOLLARS))  # noqa: B039  # It is the same for all who have none.


def shown() -> Unit:
    """Return the currency of the page, of which an amount is about to be written."""
    current = _current.get()
    current.is_made = True
    return current.unit


async def begin() -> None:
    """Choose the currency of the request; the hook before it. The API has dollars only."""
    if not services().prices.book.rates or api.serves(request.path) or request.path.startswith(_IN_DOLLARS):
        use(DOLLARS)
    else:
        as_of(_end_of(request.args))


def as_of(at: datetime) -> None:
    """Write amounts by the rate of this day, or of today if that comes first."""
    rate = rate_on(services().prices.book.rates, min(at, services().clock()).astimezone(UTC).date())
    use(Unit.at(rate) if rate else DOLLARS)


def use(unit: Unit) -> None:
    _current.set(_Use(unit))


def note() -> str:
    """Say by which rate amounts of the page were converted; empty where there is nothing to say."""
    current, rates = _current.get(), services().prices.book.rates
    if not current.is_made or not rates:
        return ""
    if current.unit is not DOLLARS:
        day = f"{current.unit.since:%d %b %Y}".lstrip("0")
        return f"Amounts are in {current.unit.code} at {current.unit.words}, the rate since {day}. Exports and the API are in dollars."
    if request.path.startswith(_IN_DOLLARS):
        return "Prices and bills are in US dollars, as vendors have them."
    return f"Amounts are in US dollars: there is no rate of {rates[0].currency} for the time that is shown."


def _end_of(query: Mapping[str, str]) -> datetime:
    """Return the last moment of the time that a page shows; now for a page without one."""
    now = services().clock()
    if (calendar := calendar_in(query)) is not None:
        return calendar.span(now).until - timedelta.resolution
    try:
        until = datetime.fromisoformat(in_utc(query).get("until", ""))
        return (until.replace(tzinfo=UTC) if until.tzinfo is None else until) - timedelta.resolution
    except (ValueError, OverflowError):
        return now

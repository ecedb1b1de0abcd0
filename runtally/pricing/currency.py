"""The rates of the currency that pages show instead of dollars, by day, as people enter them. What is stored stays dollars."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import InvalidPrice, NotFound
from runtally.models.price import CurrencyRate
from runtally.money import entered
from runtally.pricing.draft import Check
from runtally.pricing.entries import lock

DECIMALS = 8
MAX_RATE = 10_000_000
_FIRST_YEAR = 1970
CODES = frozenset(
    """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP
    CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR
    ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN
    MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD
    SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW
    ZWG
    """.split()  # noqa: SIM905  # It is read as a text.
)
"""The currencies of ISO 4217, without the dollar itself."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a dollar is worth in a currency from a day (UTC) on."""

    currency: str
    since: date
    per_usd: Decimal


def rate_on(rates: Sequence[Rate], day: date) -> Rate | None:
    """Return which of these rates, in order, is in force on a day; None before the first."""
    place = bisect_right(rates, day, key=lambda rate: rate.since)
    return rates[place - 1] if place else None


async def list_rates(session: AsyncSession) -> Sequence[CurrencyRate]:
    """List all rates, the latest day first."""
    return (await session.exec(select(CurrencyRate).order_by(col(CurrencyRate.since).desc()))).all()


async def add(session: AsyncSession, by: Actor, sent: Mapping[str, str], now: datetime) -> CurrencyRate:
    """Add the rate that a form describes. Raises `InvalidPrice` with every field that is wrong."""
    await lock(session)
    added = _read(sent)
    for other in await list_rates(session):
        if other.currency != added.currency:
            why = f"Pages show {other.currency}: remove its rates before you choose another currency."
            raise InvalidPrice.at("currency", why)
        if other.since == added.since:
            raise InvalidPrice.at("since", "There is a rate since that day: remove it, or choose another day.")
    row = CurrencyRate(
        currency=added.currency,
        since=added.since,
        rate=added.per_usd,
        author=by.label or by.name,
        created_at=now,
        updated_at=now,
    )
    session.add(row)
    await session.flush()
    record(session, by, Change("currency_rate.added", added.currency, after=_shown(row)))
    return row


async def remove(session: AsyncSession, by: Actor, since: date) -> CurrencyRate:
    """Remove the rate since this day; without any, pages show dollars. Raises `NotFound`."""
    await lock(session)
    row = (await session.exec(select(CurrencyRate).where(CurrencyRate.since == since))).one_or_none()
    if row is None:
        raise NotFound("There is no rate since that day; somebody may have removed it.")
    await session.delete(row)
    await session.flush()
    record(session, by, Change("currency_rate.removed", row.currency, before=_shown(row)))
    return row


def _read(sent: Mapping[str, str]) -> Rate:
    check = Check(sent)
    rate = Rate(
        check.text("currency").upper(), _day(check.text("since")), entered(check.text("rate"), DECIMALS) or Decimal(0)
    )
    if rate.currency not in CODES:
        check.fail("currency", "Give the three letters of a currency, such as EUR; pages show dollars without one.")
    if rate.since.year < _FIRST_YEAR:
        check.fail("since", "Give a day such as 2026-12-01.")
    if not 0 < rate.per_usd <= MAX_RATE:
        what = f"at most {MAX_RATE:,}, with {DECIMALS} decimals"
        check.fail("rate", f"Give what one US dollar is worth, such as 0.92: {what}.")
    check.done()
    return rate


def _day(text: str) -> date:
    with suppress(ValueError):
        return date.fromisoformat(text)
    return date.min


def _shown(row: CurrencyRate) -> dict[str, object]:
    return {"effective_from": row.since.isoformat(), "rate": row.rate.normalize()}

"""Keep bills: what the vendor's report says, who gave it and when; never the file itself."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.bills.rows import DAY, BillRow, Report, span_of, within
from runtally.clock import next_month
from runtally.errors import Detail, InvalidBill, NotFound
from runtally.fields import trimmed
from runtally.models.budget import Bill
from runtally.money import USD_DECIMALS, entered, plain
from runtally.pricing.providers import stored_name

MAX_BILLS = 1_000
_AT_MOST = 400
"""The days that a bill may be of."""


async def list_bills(session: AsyncSession) -> Sequence[Bill]:
    """List all bills, the newest period first."""
    query = select(Bill).order_by(col(Bill.since).desc(), Bill.provider).limit(MAX_BILLS)
    return (await session.exec(query)).all()


async def get(session: AsyncSession, bill_id: uuid.UUID) -> Bill:
    """Return a bill. Raises `NotFound`."""
    bill = await session.get(Bill, bill_id)
    if bill is None:
        raise NotFound("There is no such bill; it may have been removed or replaced.")
    return bill


@dataclass(frozen=True, slots=True)
class Terms:
    """What is said of a bill besides its reports: an invoice has its vendor and its amount here, and all have their days."""

    provider: str | None = None
    amount_usd: Decimal | None = None
    since: date | None = None
    """The first day; None for that of the reports."""
    until: date | None = None
    """The day after the last one."""
    tolerance_usd: Decimal | None = None
    replaces: bool = False


async def add(session: AsyncSession, by: Actor, reports: Sequence[Report], terms: Terms, now: datetime) -> Bill:
    """Store the reports of one vendor as a bill, or without any the amount of an invoice.

    Raises `InvalidBill`, also where another bill of the vendor has one of the days, unless this one replaces it.
    """
    provider, since, until, amount_usd = terms.provider, terms.since, terms.until, terms.amount_usd
    rows: list[BillRow] = []
    if reports:
        provider, rows = _rows(reports)
        first, end = span_of(rows)
        since, until = since or first, until or end
        rows = list(within(rows, since, until))
        if not rows:
            raise InvalidBill(f"The report is of {first} to {end - DAY}: none of these days are asked for.")
        amounts = [row.amount_usd for row in rows if row.amount_usd is not None]
        amount_usd = sum(amounts, Decimal(0)) if amounts else None
    elif amount_usd is None:
        raise InvalidBill("Give reports of the vendor, or the amount of an invoice.")
    if provider is None or not trimmed(provider) or "\0" in provider:
        raise InvalidBill.at("provider", "Say whose bill it is, such as openai.")
    if since is None or until is None:
        raise InvalidBill.at("since" if since is None else "until", "Say of which days the amount is.")
    bill = Bill(
        id=uuid.uuid4(),
        provider=stored_name(provider),
        since=since,
        until=until,
        amount_usd=amount_usd,
        tolerance_usd=terms.tolerance_usd,
        files=[{"title": report.title, "sha256": report.digest} for report in reports],
        rows=as_stored(rows),
        created_at=now,
        created_by=by.label or by.name,
    )
    return await _add(session, by, bill, now, replaces=terms.replaces)


def _rows(reports: Sequence[Report]) -> tuple[str, list[BillRow]]:
    """Return the vendor of reports and all of their rows. Raises `InvalidBill` where they do not fit together."""
    [provider, *others] = sorted({report.provider for report in reports})
    if others:
        raise InvalidBill(f"The files are of {provider}, {', '.join(others)}: give those of one vendor.")
    if len({report.digest for report in reports}) < len(reports):
        raise InvalidBill("Two of the files are the same.")
    rows = [row for report in reports for row in report.rows]
    if len({repr(row) for row in rows}) < len(rows):
        raise InvalidBill("The files have the same counts or amounts of a day more than once: give each report once.")
    if len({(row.day, row.begins) for row in rows}) > len({row.day for row in rows}):
        raise InvalidBill(
            "The days of the reports begin at different hours: export all of them in one time zone, best in UTC."
        )
    return provider, rows


async def remove(session: AsyncSession, by: Actor, bill_id: uuid.UUID) -> None:
    """Remove a bill. Raises `NotFound`."""
    bill = await get(session, bill_id)
    await session.delete(bill)
    record(session, by, Change("bill.removed", _name(bill), None, _shown(bill), {}))


def parse_month(text: str) -> tuple[date, date]:
    """Return the first day of a month such as 2026-11, and the first one of the next. Raises `InvalidBill`."""
    try:
        first = datetime.strptime(text.strip(), "%Y-%m")  # noqa: DTZ007  # A day of the calendar.
    except ValueError:
        raise InvalidBill(details=(Detail("month", "Write a month as 2026-11."),)) from None
    return first.date(), next_month(first).date()


def parse_usd(text: str, field: str) -> Decimal | None:
    """Return an amount of US dollars; None for a blank one. Raises `InvalidBill`."""
    if not text.strip():
        return None
    amount = entered(text.replace(",", ""), USD_DECIMALS)
    if amount is None or amount < 0:
        raise InvalidBill(details=(Detail(field, "Give US dollars of 0 or more, such as 1204.50."),))
    return amount


def rows_of(bill: Bill) -> list[BillRow]:
    """Return the rows of a bill."""
    return stored_rows(bill.rows)


async def _add(session: AsyncSession, by: Actor, bill: Bill, now: datetime, *, replaces: bool) -> Bill:
    if not bill.since < bill.until or (bill.until - bill.since).days > _AT_MOST:
        raise InvalidBill(f"Give a time of 1 to {_AT_MOST} days.")
    if bill.until > now.date():
        raise InvalidBill(
            f"{bill.until - DAY:%d %B %Y} is not over, so its calls and its bill are not complete: end before {now.date()}."
        )
    same = select(Bill).where(Bill.provider == bill.provider, Bill.since < bill.until, Bill.until > bill.since)
    for other in (await session.exec(same.with_for_update())).all():
        if not replaces:
            raise InvalidBill(
                f"There is a bill of {bill.provider} from {other.since} to {other.until - DAY} already: remove it, or replace it."
            )
        await session.delete(other)
    session.add(bill)
    record(session, by, Change("bill.added", _name(bill), None, {}, _shown(bill)))
    return bill


def _name(bill: Bill) -> str:
    return f"{bill.provider} {bill.since} to {bill.until - DAY}"


def _shown(bill: Bill) -> dict[str, object]:
    digests = ", ".join(file["sha256"][:12] for file in bill.files)
    amount = None if bill.amount_usd is None else plain(bill.amount_usd)
    return {"amount_usd": amount, "tolerance_usd": bill.tolerance_usd, "files": digests or None}


def as_stored(rows: Sequence[BillRow]) -> list[dict[str, Any]]:
    """Return rows as JSON."""
    found: list[dict[str, Any]] = msgspec.to_builtins(rows)
    return found


def stored_rows(stored: Sequence[Mapping[str, Any]]) -> list[BillRow]:
    """Return the rows of JSON that `as_stored` made."""
    return msgspec.convert(stored, list[BillRow])

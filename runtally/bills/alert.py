"""A comparison for people: as CSV, and as an alert that a bill differs by more than an admin tolerates."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from runtally.alerts.evaluation_queries import insert_alert
from runtally.alerts.evaluator import ALL_NAME
from runtally.alerts.message import Message, ProjectLink, compose, money, quoted
from runtally.bills.compare import Comparison, Reason
from runtally.bills.rows import DAY
from runtally.db.database import Connection
from runtally.ids import uuid7
from runtally.models.alert import AlertKind
from runtally.models.budget import Bill
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.money import as_json, plain
from runtally.spreadsheets import csv_of, guarded

_SHOWN = 3


def is_over(bill: Bill, comparison: Comparison) -> bool:
    """Return whether a difference is larger than what is tolerated."""
    return bill.tolerance_usd is not None and abs(comparison.total.difference_usd) > bill.tolerance_usd


async def alert(
    connection: Connection, bill: Bill, comparison: Comparison, public_url: str | None, now: datetime
) -> bool:
    """Send an alert to the organisation's targets, once for a bill, and return whether there was one to send."""
    if not is_over(bill, comparison):
        return False
    return await insert_alert(connection, ALL_PROJECTS_KEY, uuid7(), message(bill, comparison, public_url, now), now)


def message(bill: Bill, comparison: Comparison, public_url: str | None, now: datetime) -> Message:
    """Write the alert on a bill."""
    total, last = comparison.total, bill.until - DAY
    more = "more" if total.difference_usd > 0 else "less"
    url = f"{public_url.rstrip('/')}/admin/bills/{bill.id}" if public_url else None
    parts = ", ".join(
        f"{WORDS[part.reason]} {'-' if part.amount_usd < 0 else '+'}{money(abs(part.amount_usd))}"
        for part in total.parts[:_SHOWN]
    )
    when = f"from {bill.since:%d %b} to {last:%d %b %Y} (UTC)"
    sentences = [
        f"{quoted(bill.provider)} billed {money(total.billed_usd)} {when}, {money(abs(total.difference_usd))} {more} than was computed.",
        *([f"Most of it: {parts}."] if parts else []),
    ]
    facts = {
        "billId": str(bill.id),
        "provider": bill.provider,
        "since": bill.since.isoformat(),
        "until": bill.until.isoformat(),
        "billedUSD": as_json(total.billed_usd),
        "computedUSD": as_json(total.computed_usd),
        "differenceUSD": as_json(total.difference_usd),
    }
    return compose(
        AlertKind.BILL,
        ProjectLink(ALL_PROJECTS_KEY, ALL_NAME, url),
        now,
        subject=str(bill.id),
        title=f"The bill of {quoted(bill.provider)} differs from the computed costs",
        sentences=sentences,
        facts=facts,
    )


COLUMNS = (
    "provider",
    "model",
    "billed_usd",
    "computed_usd",
    "difference_usd",
    "reason",
    "what",
    "amount_usd",
    "billed_count",
    "count_here",
)
WORDS = {
    Reason.CALLS: "Calls that only one side has",
    Reason.UNITS: "Units that only one side has",
    Reason.TIER: "Service tier",
    Reason.REGION: "Region",
    Reason.PRICE: "Same counts, another price",
    Reason.NO_PRICE: "No price is known here",
    Reason.ROUNDING: "The bill's own rounding",
    Reason.REPRICE: "Costs stored by other prices than today's",
    Reason.CREDIT: "Credit",
    Reason.TAX: "Tax",
    Reason.FEE: "Fee of no call",
    Reason.UNTOLD: "Calls or prices: the report has no counts",
}
"""What each reason is called for people."""


def as_csv(bill: Bill, comparison: Comparison) -> str:
    """Write the parts of each model's difference; a model that is right has one row without a reason."""
    return csv_of([COLUMNS, *_rows_of(bill, comparison)], line_end="\n")


def _rows_of(bill: Bill, comparison: Comparison) -> Iterator[Sequence[str]]:
    for one in comparison.models or (comparison.total,):
        head = [guarded(bill.provider), guarded(one.name)]
        head += [plain(amount) for amount in (one.billed_usd, one.computed_usd, one.difference_usd)]
        if not one.parts:
            yield [*head, "", "", "", "", ""]
        for part in one.parts:
            counts = ["" if count is None else str(count) for count in (part.billed, part.here)]
            yield [*head, part.reason.value, guarded(part.what), plain(part.amount_usd), *counts]

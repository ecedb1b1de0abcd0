"""A comparison as CSV: a row for each part of each model's difference."""

import csv
from io import StringIO

from runtally.bills.compare import Comparison, Reason
from runtally.models.bill import Bill
from runtally.money import plain
from runtally.spreadsheets import guarded

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


def as_csv(bill: Bill, found: Comparison) -> str:
    """Write the parts of each model's difference; a model that is right has one row without a reason."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.models or (found.total,):
        head = [guarded(bill.provider), guarded(one.name)]
        head += [plain(amount) for amount in (one.billed_usd, one.computed_usd, one.difference_usd)]
        if not one.parts:
            writer.writerow([*head, "", "", "", "", ""])
        for part in one.parts:
            counts = ["" if count is None else str(count) for count in (part.billed, part.here)]
            writer.writerow([*head, part.reason.value, guarded(part.what), plain(part.amount_usd), *counts])
    return text.getvalue()

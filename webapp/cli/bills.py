"""`runtally bills`: add, list, show and remove."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import click

from api.bills import answer_of, info
from runtally.audit import OPERATOR
from runtally.bills import store
from runtally.bills.alert import WORDS, alert, as_csv
from runtally.bills.compare import Comparison, Difference
from runtally.bills.read import read_comparison
from runtally.bills.rows import DAY, read_report
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import SettingsError
from runtally.models.budget import Bill
from runtally.money import plain
from runtally.pricing.book import load_book
from runtally.settings import Settings
from runtally.usage.memo import DayMemo
from runtally.usage.snapshots import Snapshots
from webapp import words
from webapp.cli.opening import in_control, with_control
from webapp.cli.output import echo, echo_encoded, echo_if_none, echo_table, json_option

HEADINGS = ("ID", "PROVIDER", "FIRST DAY", "LAST DAY", "BILLED USD", "FILES")
DIFFERENCES = ("MODEL", "BILLED USD", "COMPUTED USD", "DIFFERENCE USD")
PARTS = ("REASON", "WHAT", "AMOUNT USD", "BILLED", "HERE")
_DAY = click.DateTime(["%Y-%m-%d"])


@click.group(epilog="Example: runtally bills add usage.json costs.json")
def bills() -> None:
    """Check vendors' bills against the costs that were computed."""


@bills.command("add")
@click.argument("paths", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--provider", help="Whose bill it is; needed with --amount, and for files of several.")
@click.option("--month", help="The month, such as 2026-11; by default the days of the files.")
@click.option("--from", "since", type=_DAY, help="The first day (UTC), in place of a month.")
@click.option("--until", type=_DAY, help="The day after the last one.")
@click.option("--amount", help="US dollars of an invoice, in place of files.")
@click.option("--tolerance", help="US dollars; a larger difference alerts.")
@click.option("--replace", is_flag=True, help="Replace bills of the same vendor and days.")
@json_option
def add(  # noqa: PLR0913  # An argument for each option.
    *,
    paths: tuple[Path, ...],
    provider: str | None,
    month: str | None,
    since: datetime | None,
    until: datetime | None,
    amount: str | None,
    tolerance: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Store the vendor's reports in FILEs, or an amount, and show what differs.

    \b
    Examples:
      runtally bills add usage.json costs.json
      runtally bills add activity.csv --month 2026-10 --tolerance 25
      runtally bills add --provider openai --month 2026-10 --amount 1204.50
    """
    first, end = store.parse_month(month) if month else (since and since.date(), until and until.date())
    tolerance_usd = store.parse_usd(tolerance or "", "tolerance")
    amount_usd = store.parse_usd(amount or "", "amount")
    if (amount_usd is None) == (not paths):
        raise click.UsageError("Give files of a vendor, or --amount.")

    async def work(settings: Settings, database: Database) -> tuple[Bill, Comparison]:
        now = system_clock()
        reports = [read_report(path, provider, now, end) for path in paths]
        terms = store.Terms(provider, amount_usd, first, end, tolerance_usd, replace)
        async with database.session() as session:
            bill = await store.add(session, OPERATOR, reports, terms, now)
        found = await _compared(settings, database, bill)
        async with database.connection() as connection:
            await alert(connection, bill, found, settings.public_url, now)
        return bill, found

    _show(*with_control(work), as_json=as_json)


@bills.command("list", epilog="Example: runtally bills list")
@json_option
def list_bills(*, as_json: bool) -> None:
    """List bills, the newest first."""
    found = in_control(store.list_bills)
    if as_json:
        echo_encoded([info(bill) for bill in found])
        return
    rows = (
        (
            str(bill.id),
            bill.provider,
            bill.since.isoformat(),
            (bill.until - DAY).isoformat(),
            "-" if bill.amount_usd is None else plain(bill.amount_usd),
            str(len(bill.files)),
        )
        for bill in found
    )
    echo_table(HEADINGS, rows, numbers={"BILLED USD", "FILES"})
    echo_if_none(found, "No bills. Add one with `runtally bills add FILE`.")


@bills.command("show", epilog="Example: runtally bills show 0b1c2d3e-4f50-4161-8273-849506a7b8c9")
@click.argument("bill_id", metavar="ID", type=click.UUID)
@click.option("--csv", "as_text", is_flag=True, help="Print CSV: a row for each part of a model's difference.")
@json_option
def show(bill_id: UUID, *, as_text: bool, as_json: bool) -> None:
    """Compare a bill with what was computed for its days, as of now."""

    async def work(settings: Settings, database: Database) -> tuple[Bill, Comparison]:
        async with database.session() as session:
            bill = await store.get(session, bill_id)
        return bill, await _compared(settings, database, bill)

    bill, found = with_control(work)
    if as_text:
        click.echo(as_csv(bill, found), nl=False)
    else:
        _show(bill, found, as_json=as_json)


@bills.command("remove", epilog="Example: runtally bills remove 0b1c2d3e-4f50-4161-8273-849506a7b8c9")
@click.argument("bill_id", metavar="ID", type=click.UUID)
def remove(bill_id: UUID) -> None:
    """Remove a bill."""
    in_control(lambda session: store.remove(session, OPERATOR, bill_id))
    echo("Bill removed.")


async def _compared(settings: Settings, database: Database, bill: Bill) -> Comparison:
    if settings.cell_urls:
        raise SettingsError(
            "The command reads one database, and there are several cells: use the page Bills, or GET /api/bills."
        )
    async with database.snapshot() as connection:
        book, snapshots = await load_book(connection), Snapshots.of(connection, DayMemo(0))
        return await read_comparison(snapshots, connection, bill, store.rows_of(bill), book, system_clock())


def _show(bill: Bill, comparison: Comparison, *, as_json: bool) -> None:
    if as_json:
        echo_encoded(answer_of(bill, comparison))
        return
    total = comparison.total
    billed = "billed" if comparison.is_billed else "by the vendor's counts"
    echo(f"{bill.provider}, {bill.since} to {bill.until - DAY} (UTC): bill {bill.id}")
    echo(
        f"${plain(total.billed_usd)} {billed}, ${plain(total.computed_usd)} computed: ${plain(total.difference_usd)} of difference.\n"
    )
    if comparison.deleted:
        echo(f"{words.not_counted(comparison.deleted)}\n")
    rows = [
        (WORDS[part.reason], part.what, plain(part.amount_usd), _count(part.billed), _count(part.here))
        for part in total.parts
    ]
    if rows:
        echo_table(PARTS, rows, numbers=PARTS[2:])
    else:
        echo("Nothing differs.")
    if differing := [model for model in comparison.models if model.parts]:
        echo()
        echo_table(DIFFERENCES, map(_row, differing), numbers=DIFFERENCES[1:])


def _row(difference: Difference) -> tuple[str, ...]:
    return (
        difference.name or "(no model)",
        *map(plain, (difference.billed_usd, difference.computed_usd, difference.difference_usd)),
    )


def _count(count: int | Decimal | None) -> str:
    return "" if count is None else f"{count:,}"

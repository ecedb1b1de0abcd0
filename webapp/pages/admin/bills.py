"""Bills of vendors: what was billed beside what was computed, and what each part of a difference is."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from msgspec import Struct
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue
from werkzeug.datastructures import FileStorage

from api.bills import MAX_REPORTS, compared, compared_at_first
from api.current import actor, services
from runtally.bills import store
from runtally.bills.alert import WORDS, as_csv, is_over
from runtally.bills.compare import Comparison, Difference, Part, Reason
from runtally.bills.read import read_costs
from runtally.bills.rows import DAY, Report, read_documents
from runtally.errors import BodyTooLarge, Detail, InvalidBill, InvalidJson
from runtally.ingest.decode import inflate
from runtally.models.budget import Bill
from runtally.units import LINES
from webapp import formats, words
from webapp.form import Form, sent_form
from webapp.guides import guide_url
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render, see_other
from webapp.report import Cell, Column, Figure, Head, Table, table_of
from webapp.security import admin
from webapp.zone import local

PATH = "/admin/bills"
FORM = Form("bill")
MOST_COMPARED = 50
"""The newest bills, of which the list says by how much they differ."""

blueprint = Blueprint("admin_bills", __name__)


class BillsPage(Page, frozen=True):
    """All bills, and the form for a new one."""

    fragment: ClassVar[str] = "admin/_bills.html"
    tab_title: ClassVar[str] = "Bills"

    frame: Frame
    table: Table | None
    form: Form


class PartLine(Struct, frozen=True):
    """A part of a difference; `fix` is what can be done about it, and where."""

    name: str
    amount: str
    counts: str
    fix: tuple[str, str] | None


class BillPage(Page, frozen=True):
    """A bill and what differs."""

    fragment: ClassVar[str] = "admin/_bill.html"

    frame: Frame
    bill: Bill
    figures: tuple[Figure, ...]
    parts: tuple[PartLine, ...]
    verdict: str
    is_over: bool
    not_counted: str
    tables: tuple[tuple[str, Table], ...]
    """What differs by model and by day, and what was billed by the vendor's key, each with its heading."""
    reprice_url: str

    @property
    def document_title(self) -> str:
        return f"Bill of {self.bill.provider}, {_period(self.bill)}"


@blueprint.get(PATH)
@admin
async def bills() -> ResponseReturnValue:
    """All bills."""
    return await render(await _page(FORM))


@blueprint.post(PATH)
@admin
async def add() -> ResponseReturnValue:
    """Store the reports or the amount that a form gives."""
    form, files = await sent_form(FORM.id), (await request.files).getlist("files")
    try:
        bill = await _stored(form, [file for file in files if file.filename])
    except InvalidBill as error:
        return await render(await _page(form.refused(error)), 422)
    await compared_at_first(bill)
    return see_other(url_for(".bill", bill_id=bill.id), flash="Bill saved.")


@blueprint.get(f"{PATH}/<uuid:bill_id>")
@admin
async def bill(bill_id: UUID) -> ResponseReturnValue:
    """A bill beside what was computed, as of now."""
    found = await _get(bill_id)
    return await render(_bill_page(found, await compared(found)))


@blueprint.get(f"{PATH}/<uuid:bill_id>/differences.csv")
@admin
async def differences(bill_id: UUID) -> ResponseReturnValue:
    """The parts of each model's difference as a file."""
    found = await _get(bill_id)
    text = as_csv(found, await compared(found))
    name = f"bill-{found.since}-{found.until - DAY}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
    return Response(text, mimetype="text/csv", headers=headers)


@blueprint.post(f"{PATH}/<uuid:bill_id>/remove")
@admin
async def remove(bill_id: UUID) -> ResponseReturnValue:
    """Remove a bill."""
    async with services().control.database.session() as session:
        await store.remove(session, actor(), bill_id)
    return see_other(url_for(".bills"), flash="Bill removed.")


async def _get(bill_id: UUID) -> Bill:
    async with services().control.database.session() as session:
        return await store.get(session, bill_id)


async def _stored(form: Form, files: list[FileStorage]) -> Bill:
    now = services().clock()
    amount, tolerance = (store.parse_usd(form.value(name), name) for name in ("amount", "tolerance"))
    since, until = store.parse_month(form.value("month")) if form.value("month").strip() else (None, None)
    replaces, provider = form.value("replace") == "1", form.value("provider").strip() or None
    if bool(files) == (amount is not None):
        raise InvalidBill(details=(Detail("files", "Choose files of the vendor, or give the amount of an invoice."),))
    if amount is not None and since is None:
        raise InvalidBill.at("month", "An amount needs a vendor and a month.")
    if len(files) > MAX_REPORTS:
        raise InvalidBill(f"Give at most {MAX_REPORTS} files.")
    reports = await asyncio.to_thread(_read, files, provider, now, until)
    terms = store.Terms(provider, amount, since, until, tolerance, replaces)
    async with services().control.database.session() as session:
        return await store.add(session, actor(), reports, terms, now)


def _read(files: list[FileStorage], provider: str | None, now: datetime, until: date | None) -> list[Report]:
    """Read uploaded files, whose names say only what kind they are."""
    documents = []
    for number, file in enumerate(files, start=1):
        kinds = [suffix.lower() for suffix in Path(file.filename or "").suffixes[-2:] if suffix.lower() in _KINDS]
        sent = file.read()
        if kinds[1:] == [".gz"]:
            sent = _unpacked(sent, number)
        documents.append(("".join(kinds).removesuffix(".gz"), sent))
    return read_documents(documents, provider, now, until)


def _unpacked(sent: bytes, number: int) -> bytes:
    """Unpack a file, of which a small one may be more than anybody waits for. Raises `InvalidBill`."""
    most = services().settings.max_body_bytes
    try:
        return inflate(sent, most)
    except (BodyTooLarge, InvalidJson):
        raise InvalidBill(
            f"File {number} is no gzip file of at most {most:,} bytes; `runtally bills add` takes larger ones."
        ) from None


_KINDS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".gz")


async def _page(form: Form) -> BillsPage:
    async with services().control.database.session() as session:
        found = await store.list_bills(session)
    async with services().cells.snapshots(None) as snapshots:
        costs = await read_costs(snapshots, found[:MOST_COMPARED], services().clock())
    return BillsPage(frame("admin_bills.bills"), _list(found, costs) if found else None, form)


def _list(found: Sequence[Bill], costs: Mapping[UUID, Decimal]) -> Table:
    def billed(bill: Bill) -> str:
        return "counts only" if bill.amount_usd is None else formats.money(bill.amount_usd)

    def computed(bill: Bill) -> str:
        return formats.money(costs[bill.id]) if bill.id in costs else formats.NOTHING

    def apart(bill: Bill) -> str | Cell:
        if bill.amount_usd is None or bill.id not in costs:
            return formats.NOTHING
        by = bill.amount_usd - costs[bill.id]
        if bill.tolerance_usd is None or abs(by) <= bill.tolerance_usd:
            return formats.money_apart(by)
        return Cell(text=formats.money_apart(by), dot="bad", aside=", above the tolerance")

    def head(bill: Bill) -> Head:
        return Head(name=bill.provider, note=_period(bill), url=url_for(".bill", bill_id=bill.id))

    columns: tuple[Column[Bill], ...] = (
        Column("Billed", billed, "number"),
        Column("Computed", computed),
        Column("Difference", apart, "number"),
        Column("Added", _stored_by, "fold"),
    )
    return table_of("Vendor", head, columns, found)


def _stored_by(bill: Bill) -> str:
    return f"{bill.created_by}, {formats.moment(local(bill.created_at))}"


def _period(bill: Bill) -> str:
    since, until = (datetime.combine(day, time(), UTC) for day in (bill.since, bill.until))
    return formats.between(since, until)


def _bill_page(bill: Bill, comparison: Comparison) -> BillPage:
    total, over = comparison.total, is_over(bill, comparison)
    apart = formats.column_money(part.amount_usd for part in total.parts)
    return BillPage(
        frame=frame("admin_bills.bills"),
        bill=bill,
        figures=(
            Figure(
                "Billed" if comparison.is_billed else "The vendor's counts, priced here",
                formats.money(total.billed_usd),
            ),
            Figure("Computed here", formats.money(total.computed_usd)),
            Figure("Difference", formats.money_apart(total.difference_usd)),
        ),
        parts=tuple(
            PartLine(
                _named(part), formats.money_apart(part.amount_usd, apart), _counts(part), _fix(bill, part, total.name)
            )
            for part in total.parts
        ),
        verdict=_verdict(bill, total, above=over),
        is_over=over,
        not_counted=words.not_counted(comparison.deleted),
        tables=tuple(_tables(comparison)),
        reprice_url=_reprice_url(bill, ""),
    )


def _tables(comparison: Comparison) -> Iterator[tuple[str, Table]]:
    if comparison.models:
        yield "By model", _differences("Model", comparison.models)
    if len(comparison.days) > 1:
        yield "By day", _differences("Day (UTC)", comparison.days)
    if comparison.keys:
        money = formats.column_money(usd for _, usd, _ in comparison.keys)
        columns: tuple[Column[tuple[str, Decimal, int]], ...] = (
            Column("Billed", lambda row: money(row[1]), "number"),
            Column("Calls", lambda row: formats.count(row[2]), "number"),
        )
        keys = table_of(
            "Id at the vendor", lambda row: Head(name=row[0] or "(none)", note=""), columns, comparison.keys
        )
        yield "Billed by the vendor's key, workspace or project", keys


def _differences(title: str, rows: Sequence[Difference]) -> Table:
    sums = formats.column_money(usd for row in rows for usd in (row.billed_usd, row.computed_usd))
    apart = formats.column_money(row.difference_usd for row in rows)

    def reasons(row: Difference) -> tuple[str, ...]:
        return tuple(f"{_named(part)} {formats.money_apart(part.amount_usd, apart)}" for part in row.parts)

    def head(row: Difference) -> Head:
        both = f"{sums(row.billed_usd)} billed, {sums(row.computed_usd)} computed"
        return Head(name=row.name or "No model", note="", summary=" · ".join((both, *reasons(row))))

    columns: tuple[Column[Difference], ...] = (
        Column("Billed", lambda row: sums(row.billed_usd)),
        Column("Computed", lambda row: sums(row.computed_usd)),
        Column("Difference", lambda row: formats.money_apart(row.difference_usd, apart), "number"),
        Column("Why", lambda row: Cell(notes=reasons(row)), "fold"),
    )
    return table_of(title, head, columns, rows)


def _verdict(bill: Bill, total: Difference, *, above: bool) -> str:
    if not total.difference_usd:
        return "Both are equal to the last digit."
    share = f" ({formats.percent(float(abs(total.difference_usd) / total.billed_usd))})" if total.billed_usd else ""
    more = "more" if total.difference_usd > 0 else "less"
    sentence = f"The vendor bills {formats.money(abs(total.difference_usd))} {more} than was computed{share}."
    if bill.tolerance_usd is None:
        return sentence
    limit = formats.set_money(bill.tolerance_usd)
    return f"{sentence} That is {'above' if above else 'within'} the tolerance of {limit}."


def _named(part: Part) -> str:
    what = LINES[part.what].label if part.what in LINES else part.what
    return ": ".join(filter(None, (WORDS[part.reason], what)))


def _reprice_url(bill: Bill, model: str) -> str:
    since, until = bill.since.isoformat(), bill.until.isoformat()
    return url_for("repricing.repricings", provider=bill.provider, model=model or None, since=since, until=until)


def _fix(bill: Bill, part: Part, model: str) -> tuple[str, str] | None:
    """Return what can be done about a part, and where."""
    match part.reason:
        case Reason.CALLS:
            return "Clients", url_for("admin_clients.clients")
        case Reason.UNITS | Reason.TIER | Reason.REGION:
            return "How to send it", guide_url("sending")
        case Reason.PRICE:
            return "Prices", url_for("prices.prices", q=model or bill.provider)
        case Reason.NO_PRICE:
            return "Add the price", url_for("price_forms.new", provider=bill.provider, model=model or None)
        case Reason.REPRICE:
            return "Reprice", _reprice_url(bill, model)
    return None


def _counts(part: Part) -> str:
    if part.billed is None and part.here is None:
        return ""
    sides = ((part.billed, "billed"), (part.here, "here"))
    return ", ".join(f"{count:,} {side}" for count, side in sides if count is not None)

"""/api/bills: bills of vendors, and what differs between them and the costs that were computed."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.cost_lines import DeletedUsd, deleted_usd
from api.current import actor, services
from api.metrics import Count
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, Success, answered, reply
from api.sent import asked_as, sent_as
from runtally.access.scopes import Scope, demand
from runtally.bills import store
from runtally.bills.alert import WORDS, alert, as_csv
from runtally.bills.compare import Comparison, Difference, Reason
from runtally.bills.read import read_comparison
from runtally.bills.rows import read_documents
from runtally.errors import (
    Detail,
    DimensionNotTracked,
    Forbidden,
    InvalidBill,
    InvalidJson,
    InvalidPayload,
    NotFound,
    StoreUnavailable,
)
from runtally.fields import camel
from runtally.models.budget import Bill
from runtally.money import MAX_USD, as_json

blueprint = Blueprint("bills", __name__, url_prefix="/api/bills")

CSV = "text/csv"
MAX_REPORTS = 10

Usd = Annotated[msgspec.Raw, Meta(description="US dollars, every digit exact.", extra_json_schema={"type": "number"})]
Amount = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "number", "minimum": 0})]
Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class BillInfo(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A bill: whose it is, and which days it is of."""

    id: str
    provider: str
    since: Annotated[Day, Meta(description="First day, UTC.")]
    until: Annotated[Day, Meta(description="Day after the last one.")]
    billed_usd: Annotated[Usd | None, Meta(description="Null where the report has counts alone.")] = msgspec.field(
        name="billedUSD"
    )
    tolerance_usd: Annotated[Usd | None, Meta(description="A larger difference alerts.")] = msgspec.field(
        name="toleranceUSD"
    )
    files: Annotated[Sequence[Mapping[str, str]], Meta(description="Kind and SHA-256 of each file; they are not kept.")]
    created_at: str
    created_by: str


class DifferencePart(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A part of a difference."""

    reason: Reason
    name: Annotated[str, Meta(description="The reason for people.")]
    what: Annotated[str, Meta(description="The unit, tier or line of the bill that it is about.")]
    amount_usd: Usd = msgspec.field(name="amountUSD")
    billed: Annotated[
        msgspec.Raw | None, Meta(description="How many the vendor counted.", extra_json_schema={"type": "number"})
    ]
    here: Annotated[
        msgspec.Raw | None, Meta(description="How many were received.", extra_json_schema={"type": "number"})
    ]


class ModelDifference(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """What was billed and computed for a model or a day, and the parts of the difference."""

    name: str
    billed_usd: Usd = msgspec.field(name="billedUSD")
    computed_usd: Usd = msgspec.field(name="computedUSD")
    difference_usd: Usd = msgspec.field(name="differenceUSD")
    billed_requests: Count
    requests: Count
    parts: Annotated[tuple[DifferencePart, ...], Meta(description="They add up to the difference, to the last digit.")]


class KeyAmount(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """What was billed for a key, workspace or project of the vendor."""

    name: str
    billed_usd: Usd = msgspec.field(name="billedUSD")
    billed_requests: Count


class ComparedBill(Success, frozen=True, kw_only=True, rename=camel):
    """A bill beside what was computed, as of now: after a fix or a repricing it is another answer."""

    bill: BillInfo
    is_billed: Annotated[
        bool, Meta(description="False: the report has no amounts, so its counts are priced by the registry.")
    ]
    total: ModelDifference
    models: tuple[ModelDifference, ...]
    days: tuple[ModelDifference, ...]
    keys: tuple[KeyAmount, ...]
    deleted_usd: DeletedUsd | UnsetType = msgspec.field(default=UNSET, name="deletedUSD")


class Bills(Success, frozen=True, kw_only=True):
    """All bills, the newest first."""

    bills: tuple[BillInfo, ...]


class BillPath(msgspec.Struct, frozen=True):
    """A bill."""

    bill_id: Annotated[str, Meta(description="The `id` of the bill.", extra_json_schema={"format": "uuid"})]


class BillQuery(msgspec.Struct, frozen=True):
    """The format of the answer."""

    format: Annotated[Literal["json", "csv"], Meta(description="csv: a row for each part of a model's difference.")] = (
        "json"
    )


class SentBill(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """A vendor's own reports, as JSON documents, or the amount of an invoice."""

    reports: (
        Annotated[
            list[msgspec.Raw],
            Meta(
                max_length=MAX_REPORTS,
                description="Pages as the vendor's API answers them: usage, costs, or both.",
                extra_json_schema={"items": {}},
            ),
        ]
        | UnsetType
    ) = UNSET
    amount_usd: Annotated[Amount, Meta(description="In place of reports.")] | UnsetType = msgspec.field(
        default=UNSET, name="amountUSD"
    )
    provider: Annotated[str, Meta(min_length=1, max_length=256, description="Required with an amount.")] | UnsetType = (
        UNSET
    )
    since: Annotated[date, Meta(description="First day; by default the report's.")] | UnsetType = UNSET
    until: Annotated[date, Meta(description="Day after the last one; by default the report's.")] | UnsetType = UNSET
    tolerance_usd: Annotated[Amount, Meta(description="A larger difference alerts.")] | UnsetType = msgspec.field(
        default=UNSET, name="toleranceUSD"
    )
    replace: Annotated[bool, Meta(description="Replace bills of the same vendor and days.")] = False


_BILL = {
    "id": "0b1c2d3e-4f50-4161-8273-849506a7b8c9", "provider": "openai", "since": "2026-10-01", "until": "2026-11-01",
    "billedUSD": 1204.5, "toleranceUSD": 25, "files": [{"title": "OpenAI's report of costs", "sha256": "9f86d081884c7d65"}],
    "createdAt": "2026-11-02T08:00:00Z", "createdBy": "ann@example.com",
}  # fmt: skip
_CALLS = {"reason": "calls", "name": WORDS[Reason.CALLS], "what": "", "amountUSD": 4.5, "billed": 1030, "here": 1000}
_TOTAL = {
    "name": "", "billedUSD": 1204.5, "computedUSD": 1200, "differenceUSD": 4.5, "billedRequests": 1030, "requests": 1000, "parts": [_CALLS],
}  # fmt: skip
_COMPARED = {
    "ok": True, "bill": _BILL, "isBilled": True, "total": _TOTAL, "models": [{**_TOTAL, "name": "gpt-5.4"}],
    "days": [{**_TOTAL, "name": "2026-10-01"}], "keys": [{"name": "proj_1", "billedUSD": 1204.5, "billedRequests": 1030}],
}  # fmt: skip
LIST_BILLS = Operation(
    tag="Bills",
    answers={200: Answer("All bills.", (Content((Bills,), {"One": {"ok": True, "bills": [_BILL]}}),))},
    raises=(Forbidden, StoreUnavailable),
)
GET_BILL = Operation(
    tag="Bills",
    path=BillPath,
    query=BillQuery,
    answers={
        200: Answer(
            "The bill and its differences.",
            (Content((ComparedBill,), {"Calls are missing": _COMPARED}, also_as=(CSV,)),),
        )
    },
    raises=(Forbidden, NotFound, InvalidPayload, DimensionNotTracked, StoreUnavailable),
)
POST_BILL = Operation(
    tag="Bills",
    body=Content(
        (SentBill,),
        {"An invoice": {"provider": "openai", "since": "2026-10-01", "until": "2026-11-01", "amountUSD": 1204.5}},
    ),
    answers={201: Answer("The bill was stored.", (Content((ComparedBill,), {"Calls are missing": _COMPARED}),))},
    raises=(Forbidden, InvalidJson, InvalidPayload, InvalidBill, DimensionNotTracked, StoreUnavailable),
)


@blueprint.get("")
@project_key
@documents(LIST_BILLS)
async def list_bills() -> ResponseReturnValue:
    """List the bills of vendors. Needs an admin key."""
    demand(actor(), Scope.ADMIN, None)
    async with services().control.database.session() as session:
        return reply(Bills(bills=tuple(map(info, await store.list_bills(session)))))


@blueprint.get("/<bill_id>")
@project_key
@documents(GET_BILL)
async def get_bill(bill_id: str) -> ResponseReturnValue:
    """Compare a bill with what was computed for its days, as of now. Needs an admin key.

    The parts of each difference add up to it: calls that only one side has, units, service tiers, regions, prices, rounding, credits,
    taxes and fees.
    """
    demand(actor(), Scope.ADMIN, None)
    query = asked_as(BillQuery)
    async with services().control.database.session() as session:
        bill = await store.get(session, _id(bill_id))
    found = await compared(bill)
    if query.format == "csv":
        headers = {"Content-Type": f"{CSV}; charset=utf-8", "Cache-Control": "no-store"}
        return Reply(as_csv(bill, found).encode(), 200, headers)
    return reply(answer_of(bill, found))


@blueprint.post("")
@project_key
@documents(POST_BILL)
async def post_bill() -> ResponseReturnValue:
    """Store a vendor's reports, or the amount of an invoice, and compare it. Needs an admin key.

    Of a report its sums by day, model, line and key are kept, and its digest. Reports of one bill are sent together: usage tells
    which calls are missing, costs what was charged.
    """
    demand(actor(), Scope.ADMIN, None)
    sent, now = await sent_as(SentBill), services().clock()
    amount, tolerance = _amount(sent.amount_usd, "amountUSD"), _amount(sent.tolerance_usd, "toleranceUSD")
    since, until = (None if one is UNSET else one for one in (sent.since, sent.until))
    provider = None if sent.provider is UNSET else sent.provider
    documents = [(".json", bytes(document)) for document in (() if sent.reports is UNSET else sent.reports)]
    reports = await asyncio.to_thread(read_documents, documents, provider, now, until)
    terms = store.Terms(provider, amount, since, until, tolerance, sent.replace)
    async with services().control.database.session() as session:
        bill = await store.add(session, actor(), reports, terms, now)
    return reply(answer_of(bill, await compared_at_first(bill)), 201)


async def compared(bill: Bill) -> Comparison:
    """Compare a bill with the runs of all projects. Raises `DimensionNotTracked`."""
    async with services().cells.snapshots(None) as snapshots, services().open_control(snapshots) as control:
        now, book = services().clock(), services().prices.book
        return await read_comparison(snapshots, control, bill, store.rows_of(bill), book, now)


async def compared_at_first(bill: Bill) -> Comparison:
    """Compare a bill that was just stored, and send an alert if it differs by more than it may."""
    found = await compared(bill)
    async with services().cells.main.database.connection() as connection:
        await alert(connection, bill, found, services().settings.public_url, services().clock())
    return found


def info(bill: Bill) -> BillInfo:
    """Describe a bill."""
    billed = None if bill.amount_usd is None else as_json(bill.amount_usd)
    return answered(BillInfo, bill, id=str(bill.id), billed_usd=billed)


def answer_of(bill: Bill, comparison: Comparison) -> ComparedBill:
    """Return a bill and its differences as the API answers them."""
    return ComparedBill(
        bill=info(bill),
        is_billed=comparison.is_billed,
        total=_difference(comparison.total),
        models=tuple(map(_difference, comparison.models)),
        days=tuple(map(_difference, comparison.days)),
        keys=tuple(
            KeyAmount(name=name, billed_usd=as_json(amount), billed_requests=requests)
            for name, amount, requests in comparison.keys
        ),
        deleted_usd=deleted_usd(comparison.deleted),
    )


def _difference(difference: Difference) -> ModelDifference:
    parts = tuple(answered(DifferencePart, part, name=WORDS[part.reason]) for part in difference.parts)
    return answered(ModelDifference, difference, parts=parts)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("There is no such bill; GET /api/bills lists all.") from None


_DECODER = msgspec.json.Decoder(float_hook=Decimal)


def _amount(raw: msgspec.Raw | UnsetType, name: str) -> Decimal | None:
    if raw is UNSET:
        return None
    value = _DECODER.decode(raw)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 <= value <= MAX_USD:
        return Decimal(value)
    raise InvalidPayload(details=(Detail(name, "Give US dollars of 0 or more, as a number."),))

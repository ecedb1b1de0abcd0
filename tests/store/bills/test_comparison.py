"""A month whose bill differs from what was computed in ways that are known, and each comes back with its amount."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from runtally.audit import OPERATOR
from runtally.bills import store
from runtally.bills.alert import alert
from runtally.bills.compare import Comparison, Difference, Reason
from runtally.bills.read import read_comparison
from runtally.bills.rows import Report, read_report
from runtally.db.database import Connection, Database
from runtally.errors import InvalidBill, NotFound
from runtally.ingest.queries import insert_runs
from runtally.models.run import Status, StoredRun
from runtally.pricing.book import PriceBook, load_book
from runtally.pricing.cost import resolve_cost
from runtally.usage.memo import DayMemo
from runtally.usage.snapshots import Snapshots
from tests.factories import make_price
from tests.serving import Postgres

NOW = datetime(2026, 3, 27, 13, tzinfo=UTC)
FIRST = datetime(2026, 3, 2, tzinfo=UTC)
MARCH = date(2026, 3, 2), date(2026, 3, 5)
SOL, LITE, LONG = "made-sol", "made-lite", "made-long"
NUMBERS = count()


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    """Of the module's own: its prices are no other test's. Sol costs $4 and $20 a million, lite $1 and $2, by batch half."""
    async with Database(postgres.create_seeded("bills")) as database:
        async with database.session() as session:
            dollars = {"input_per_million": Decimal(4), "output_per_million": Decimal(20)}
            session.add(make_price(provider="openai", model=SOL, aliases=[f"{SOL}-2026-01-01"], **dollars))
            dollars = {"input_per_million": Decimal(1), "output_per_million": Decimal(2)}
            session.add(
                make_price(
                    provider="openai",
                    model=LITE,
                    variants="tier batch: x 0.5",
                    unit_rates="webSearch 10\ncharacters 20",
                    **dollars,
                )
            )
            dollars = {"input_per_million": Decimal(5), "output_per_million": Decimal(10)}
            for provider in ("openai", "anthropic"):
                session.add(make_price(provider=provider, model=LONG, variants="above 200000: x 2", **dollars))
        yield database


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """A transaction that leaves nothing behind."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection
        await transaction.rollback()


def runs_of(book: PriceBook, number: int, day: int, model: str, **fields: Any) -> Iterator[StoredRun]:  # noqa: ANN401
    """Runs of 1,000 tokens in and 100 out."""
    for _ in range(number):
        values: dict[str, Any] = {
            "provider": "openai",
            "input_tokens": 1_000,
            "output_tokens": 100,
            "project_id": "billed",
        } | fields
        run = StoredRun(
            id=f"run-{next(NUMBERS)}",
            occurred_at=FIRST + timedelta(days=day, hours=7),
            model=model,
            status=Status.SUCCESS,
            created_at=NOW,
            version=1,
            **values,
        )
        cost = resolve_cost(run, book.price_of(run, ""), direct=False, reported=None, upstream_reported=None)
        run.cost_usd, run.cost_source, run.price_entry_id = cost.total_usd, cost.source, cost.entry_id
        yield run


def bucket(kind: str, day: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    start = int((FIRST + timedelta(days=day)).timestamp())
    found = [{"object": f"organization.{kind}.result", **one} for one in results]
    return {"object": "bucket", "start_time": start, "end_time": start + 86_400, "results": found}


def usage(model: str, requests: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # Any of the report's fields.
    tokens = {"input_tokens": 1_000 * requests, "output_tokens": 100 * requests, "num_model_requests": requests}
    return {"model": model, "batch": False, "service_tier": "default", "project_id": "p1", **tokens, **more}


def cost(line: str, dollars: str) -> dict[str, Any]:
    return {"line_item": line, "amount": {"value": float(dollars), "currency": "usd"}, "project_id": "p1"}


def write(folder: Path, name: str, buckets: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.write_text(json.dumps({"object": "page", "data": buckets, "has_more": False, "next_page": None}))
    return path


def parts(found: Difference) -> dict[str, Decimal]:
    return {f"{one.reason.value} {one.what}".strip(): one.amount_usd for one in found.parts}


async def compared(database: Database, connection: Connection, reports: list[Report]) -> Comparison:
    async with database.session() as session:
        bill = await store.add(session, OPERATOR, reports, store.Terms(), NOW)
        await session.rollback()
    book = await load_book(connection)
    return await read_comparison(Snapshots.of(connection, DayMemo(0)), connection, bill, store.rows_of(bill), book, NOW)


async def test_each_planted_difference_is_named_with_its_amount(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    stored = [
        *(run for day in range(3) for run in runs_of(book, 100, day, SOL)),
        *runs_of(book, 40, 0, LITE),
        *runs_of(book, 60, 1, LITE, units={"webSearch": 1}),
    ]
    await insert_runs(connection, stored)
    counts = write(
        tmp_path,
        "usage.json",
        [
            # 30 calls of sol never arrived on the second day, and those of lite on the first were a batch.
            bucket("usage.completions", 0, [usage(f"{SOL}-2026-01-01", 100), usage(LITE, 40, batch=True)]),
            bucket("usage.completions", 1, [usage(SOL, 130), usage(LITE, 60)]),
            bucket("usage.completions", 2, [usage(SOL, 100)]),
        ],
    )
    amounts = write(
        tmp_path,
        "costs.json",
        [
            # Sol's input costs $5 a million on the third day, not 4; there were 90 searches, not 60.
            bucket("costs", 0, [cost(f"{SOL}-2026-01-01, input", "0.4"), cost(f"{SOL}-2026-01-01, output", "0.2"), cost(f"{LITE}, input", "0.02"), cost(f"{LITE}, output", "0.004")]),
            bucket("costs", 1, [cost(f"{SOL}, input", "0.52"), cost(f"{SOL}, output", "0.26"), cost(f"{LITE}, input", "0.06"), cost(f"{LITE}, output", "0.012"), cost("web search tool calls", "0.9")]),
            bucket("costs", 2, [cost(f"{SOL}, input", "0.5"), cost(f"{SOL}, output", "0.2"), cost("Committed use discount", "-0.25"), cost("Sales tax", "0.19"), cost("Vector store storage", "0.11")]),
        ],
    )  # fmt: skip

    found = await compared(database, connection, [read_report(one, None, NOW) for one in (counts, amounts)])

    assert parts(found.total) == {
        "calls": Decimal("0.18"),
        "tier batch": Decimal("-0.024"),
        "price": Decimal("0.1"),
        "units webSearch": Decimal("0.3"),
        "credit Committed use discount": Decimal("-0.25"),
        "tax Sales tax": Decimal("0.19"),
        "fee Vector store storage": Decimal("0.11"),
    }
    assert found.total.computed_usd == sum(run.cost_usd or 0 for run in stored)
    assert found.total.difference_usd == sum(parts(found.total).values())
    [calls] = [one for one in found.total.parts if one.reason is Reason.CALLS]
    assert (calls.billed, calls.here) == (130, 100)
    assert (found.total.billed_requests, found.total.requests) == (430, 400)
    assert {one.name: one.difference_usd for one in found.models} == {
        SOL: Decimal("0.28"),
        LITE: Decimal("-0.024"),
        "": Decimal("0.35"),
    }
    assert [parts(one) for one in found.days] == [
        {"tier batch": Decimal("-0.024")},
        {"units webSearch": Decimal("0.3"), "calls": Decimal("0.18")},
        {
            "credit Committed use discount": Decimal("-0.25"),
            "tax Sales tax": Decimal("0.19"),
            "fee Vector store storage": Decimal("0.11"),
            "price": Decimal("0.1"),
        },
    ]
    assert found.keys == (("p1", Decimal("3.126"), 430),)


async def test_counts_alone_are_priced_by_the_registry(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    await insert_runs(connection, [*runs_of(book, 10, 0, SOL)])
    counts = write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 12)])])

    found = await compared(database, connection, [read_report(counts, "openai", NOW)])

    assert not found.is_billed
    assert parts(found.total) == {"calls": Decimal("0.012")}
    assert found.total.billed_usd == Decimal("0.072")


async def test_costs_alone_do_not_tell_calls_and_prices_apart(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    await insert_runs(connection, [*runs_of(book, 10, 0, SOL)])
    amounts = write(tmp_path, "costs.json", [bucket("costs", 0, [cost(f"{SOL}, input", "1.5")])])

    found = await compared(database, connection, [read_report(amounts, "openai", NOW)])

    assert parts(found.total) == {"untold": Decimal("1.44")}


async def test_a_bill_that_is_right_has_no_difference(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    await insert_runs(connection, [*runs_of(book, 10, 0, SOL)])
    files = [
        write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 10)])]),
        write(
            tmp_path,
            "costs.json",
            [bucket("costs", 0, [cost(f"{SOL}, input", "0.04"), cost(f"{SOL}, output", "0.02")])],
        ),
    ]

    found = await compared(database, connection, [read_report(one, None, NOW) for one in files])

    assert found.total.difference_usd == 0
    assert found.total.parts == ()


async def test_speech_and_embeddings_are_told_by_reports_of_their_own(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    nothing = {"input_tokens": 0, "output_tokens": 0}
    await insert_runs(
        connection,
        [
            *runs_of(book, 3, 0, LITE, units={"characters": 1_000, "webSearch": 2}, **nothing),
            *runs_of(book, 5, 0, SOL, input_tokens=1_000, output_tokens=0),
        ],
    )
    day = {"project_id": "p1", "user_id": None}
    files = [
        write(tmp_path, f"{name}.json", [bucket(kind, 0, [{**day, **result} for result in results])])
        for name, kind, results in (
            ("speech", "usage.audio_speeches", [{"model": LITE, "characters": 3_000, "num_model_requests": 3}]),
            ("embeddings", "usage.embeddings", [{"model": SOL, "input_tokens": 6_000, "num_model_requests": 6}]),
            ("searches", "usage.web_searches", [{"model": LITE, "num_requests": 6, "num_model_requests": 3}]),
            (
                "costs",
                "costs",
                [cost(LITE, "0.07"), cost(f"{SOL}, input", "0.024"), cost("web search tool calls", "0.06")],
            ),
        )
    ]

    found = await compared(database, connection, [read_report(one, None, NOW) for one in files])

    assert {one.name: parts(one) for one in found.models} == {
        LITE: {"price": Decimal("0.01")}, SOL: {"calls": Decimal("0.004")}, "": {},
    }  # fmt: skip


async def test_the_two_files_of_anthropics_console_tell_which_calls_are_missing(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    tokens = {"provider": "anthropic", "input_tokens": 100_000, "output_tokens": 10_000}
    await insert_runs(connection, [*runs_of(book, 2, 0, LONG, **tokens)])
    (counted := tmp_path / "usage.csv").write_text(
        "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,"
        "usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,"
        "usage_output_tokens,web_search_count,inference_geo,speed\n"
        f"2026-03-02,{LONG},Service,Default,standard,≤ 200k,300000,0,0,0,30000,0,global,\n"
    )
    header = (
        "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type"
    )
    (charged := tmp_path / "costs.csv").write_text(
        f"{header}\n"
        "2026-03-02,Made Long,Default,Service,message,≤ 200k,input_no_cache,1.50,1.50,token\n"
        "2026-03-02,Made Long,Default,Service,message,≤ 200k,output,0.30,0.30,token\n"
    )

    found = await compared(database, connection, [read_report(one, None, NOW) for one in (counted, charged)])

    assert (found.total.billed_usd, found.total.computed_usd) == (Decimal("1.8"), Decimal("1.2"))
    assert parts(found.total) == {"calls": Decimal("0.6")}


async def test_calls_with_long_inputs_cost_what_these_do_also_where_the_report_does_not_tell_them(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    long = {"input_tokens": 300_000, "output_tokens": 0}
    short = {"input_tokens": 100_000, "output_tokens": 0}
    for provider in ("openai", "anthropic"):
        await insert_runs(
            connection,
            [
                *runs_of(book, 2, 0, LONG, provider=provider, **long),
                *runs_of(book, 4, 0, LONG, provider=provider, **short),
            ],
        )
    counts = write(
        tmp_path,
        "usage.json",
        [bucket("usage.completions", 0, [usage(LONG, 7, input_tokens=1_100_000, output_tokens=0)])],
    )
    # One short call more than here, and a dollar more for all.
    amounts = write(tmp_path, "costs.json", [bucket("costs", 0, [cost(f"{LONG}, input", "9.5")])])
    told = tmp_path / "anthropic.jsonl"
    of_day = {
        "starting_at": "2026-03-02T00:00:00Z",
        "ending_at": "2026-03-03T00:00:00Z",
        "model": LONG,
        "output_tokens": 0,
    }
    told.write_text(
        "\n".join(
            json.dumps(of_day | {"uncached_input_tokens": tokens, "context_window": window})
            for tokens, window in ((400_000, "0-200k"), (900_000, "200k-1M"))
        )
    )

    untold = await compared(database, connection, [read_report(one, None, NOW) for one in (counts, amounts)])
    found = await compared(database, connection, [read_report(told, None, NOW)])

    # 600,000 at $10 and 400,000 at $5 a million are $8.
    assert (untold.total.computed_usd, parts(untold.total)) == (
        Decimal(8),
        {"calls": Decimal("0.5"), "price": Decimal(1)},
    )
    # 900,000 long ones are 300,000 more than here.
    assert parts(found.total) == {"calls": Decimal(3)}


async def test_days_that_a_vendor_counts_in_another_zone_are_compared_with_the_runs_of_their_hours(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    book = await load_book(connection)
    late, early = timedelta(hours=23), timedelta(hours=2)
    runs = [*runs_of(book, 10, 0, SOL), *runs_of(book, 20, 1, SOL), *runs_of(book, 3, 2, SOL)]
    for run, at in ((runs[0], late), (runs[10], early), (runs[30], early)):
        run.occurred_at = run.occurred_at.replace(hour=0) + at
    await insert_runs(connection, runs)

    def of_day(day: int, requests: int, hour: int) -> dict[str, Any]:
        found = bucket("usage.completions", day, [usage(SOL, requests)])
        return found | {name: found[name] + hour * 3600 for name in ("start_time", "end_time")}

    # In Los Angeles a day of the summer begins at 7, one of the winter at 8; a day in Tokyo begins at 15 on the day before.
    west = write(tmp_path, "west.json", [of_day(0, 11, 7), of_day(1, 20, 7)])
    east = write(tmp_path, "east.json", [of_day(0, 9, -9), of_day(1, 21, -9), of_day(2, 3, -9)])
    for report in (west, east):
        found = await compared(database, connection, [read_report(report, None, NOW)])
        assert [(one.name, parts(one)) for one in found.days] == [
            (f"2026-03-{day:02}", {}) for day in range(2, 2 + len(found.days))
        ]
        assert found.total.billed_requests == found.total.requests

    with pytest.raises(InvalidBill, match="begin at different hours"):
        await compared(database, connection, [read_report(one, None, NOW) for one in (west, east)])


async def test_a_report_that_is_given_twice_is_refused(database: Database, tmp_path: Path) -> None:
    whole = write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 1)])])
    lines = tmp_path / "usage.jsonl"
    of_day = bucket("usage.completions", 0, [usage(SOL, 1)])
    about = {"start_time": of_day["start_time"], "end_time": of_day["end_time"]}
    lines.write_text(json.dumps(about | of_day["results"][0]))
    async with database.session() as session:
        with pytest.raises(InvalidBill, match="more than once: give each report once"):
            await store.add(
                session, OPERATOR, [read_report(one, None, NOW) for one in (whole, lines)], store.Terms(), NOW
            )


def test_a_row_of_several_days_is_refused(tmp_path: Path) -> None:
    week = bucket("usage.completions", 0, [usage(SOL, 1)])
    with pytest.raises(InvalidBill, match="Line 1 is of more than a day: export the report by day"):
        read_report(write(tmp_path, "a.json", [week | {"end_time": week["start_time"] + 7 * 86_400}]), None, NOW)


async def test_a_bill_of_the_same_days_is_refused_unless_it_replaces_the_other(
    database: Database, tmp_path: Path
) -> None:
    counts = write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 1)])])
    async with database.session() as session:
        report = read_report(counts, None, NOW)
        first = await store.add(session, OPERATOR, [report], store.Terms(), NOW)
        await session.flush()
        with pytest.raises(InvalidBill, match="There is a bill of openai from 2026-03-02 to 2026-03-02 already"):
            await store.add(session, OPERATOR, [], store.Terms("openai", Decimal(3), *MARCH), NOW)
        second = await store.add(session, OPERATOR, [], store.Terms("OpenAI", Decimal(3), *MARCH, replaces=True), NOW)
        await session.flush()

        assert [one.id for one in await store.list_bills(session)] == [second.id]
        with pytest.raises(NotFound):
            await store.get(session, first.id)
        await session.rollback()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (cost("x, input", "1") | {"amount": {"value": 1, "currency": "eur"}}, "is in EUR"),
        (usage(SOL, 1) | {"input_tokens": -5}, "negative"),
        (usage(SOL, 1) | {"input_tokens": 1.5}, "not whole"),
        (usage(SOL, 1) | {"input_tokens": "1e99999"}, r"Line 1 of .* is not as its own format writes it"),
        (usage(SOL, 1) | {"input_tokens": "3,001"}, r"Line 1 of .* is not as its own format writes it"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    kind = "costs" if "amount" in given else "usage.completions"
    with pytest.raises(InvalidBill, match=message):
        read_report(write(tmp_path, "a.json", [bucket(kind, 0, [given])]), None, NOW)


def test_a_report_of_another_vendor_a_day_that_is_not_over_and_no_report_at_all_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "usage.json", [bucket("usage.completions", 25, [usage(SOL, 1)])])
    with pytest.raises(InvalidBill, match="27 March 2026, which is not over"):
        read_report(path, None, NOW)
    with pytest.raises(InvalidBill, match="no rows of days before 2026-03-01"):
        read_report(path, None, NOW, date(2026, 3, 1))
    path = write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 1)])])
    with pytest.raises(InvalidBill, match="is a report of openai, not of anthropic"):
        read_report(path, "anthropic", NOW)
    other = tmp_path / "notes.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidBill, match="is none of the reports that are known"):
        read_report(other, None, NOW)


def test_a_file_of_calls_that_does_not_name_a_vendor_is_of_the_one_that_is_named(tmp_path: Path) -> None:
    calls = tmp_path / "calls.jsonl"
    sent = {"type": "GENERATION", "startTime": "2026-03-02T10:00:00Z", "usageDetails": {"input": 7}, "model": SOL}
    calls.write_text(json.dumps(sent))

    with pytest.raises(InvalidBill, match="does not say whose calls it has: name the provider"):
        read_report(calls, None, NOW)
    report = read_report(calls, "openai", NOW)

    assert (report.provider, report.rows[0].tokens) == ("openai", {"input": 7})


async def test_a_difference_above_the_tolerance_alerts_the_organisation_once(
    database: Database, connection: Connection, tmp_path: Path
) -> None:
    await connection.execute(
        "INSERT INTO alert_targets (project_id, id, kind, address, of_unusual_cost, created_at) "
        "VALUES ('', gen_random_uuid(), 'pagerduty', 'a', false, now())"
    )
    counts = write(tmp_path, "usage.json", [bucket("usage.completions", 0, [usage(SOL, 12)])])
    async with database.session() as session:
        bill = await store.add(session, OPERATOR, [read_report(counts, None, NOW)], store.Terms(), NOW)
        await session.rollback()
    snapshots, book = Snapshots.of(connection, DayMemo(0)), await load_book(connection)
    found = await read_comparison(snapshots, connection, bill, store.rows_of(bill), book, NOW)

    sent = []
    for tolerance in (None, Decimal("0.072"), Decimal("0.0719"), Decimal("0.01")):
        bill.tolerance_usd = tolerance
        sent.append(await alert(connection, bill, found, "https://runtally.example/base/", NOW))

    assert sent == [False, False, True, False]
    row = await connection.fetchrow("SELECT title, message, document FROM alerts WHERE kind = 'bill'")
    assert row is not None
    assert row["title"] == 'The bill of "openai" differs from the computed costs'
    assert '"openai" billed $0.07 from 02 Mar to 02 Mar 2026 (UTC), $0.07 more than was computed.' in row["message"]
    assert "Most of it: Calls that only one side has +$0.07." in row["message"]
    assert f"https://runtally.example/base/admin/bills/{bill.id}" in row["document"]
    # A bill is no incident that anything would close.
    assert [tuple(one) for one in await connection.fetch("SELECT is_open FROM alert_deliveries")] == [(None,)]

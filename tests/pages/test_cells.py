"""The application with two cells: main, in the database of control, and eu."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from quart import Quart, Response
from quart.testing.app import LifespanError

from api.current import EXTENSION
from runtally import directory
from runtally.audit import OPERATOR
from runtally.budgets.queries import get_use
from runtally.budgets.use import Use
from runtally.cells.cell import PAGE_CONNECTIONS
from runtally.clock import system_clock
from runtally.db import database as pools
from runtally.db.database import Database
from runtally.db.schema import CELL, REPORTING
from runtally.reporting.outbox_queries import get_relay_status
from runtally.runs import read
from runtally.runs.archived import RunSource
from runtally.usage.filter import Period, RunFilter
from tests.factories import make_run
from tests.pages.looking import html_of, text_of
from tests.pages.test_two_databases import PAGES
from tests.reference import nearest_rank
from tests.serving import INGEST_KEY, SEEDED, Postgres, free_port, settings_for
from tests.spans import as_json, joined, make_request, make_span
from tests.stored import until_merged
from webapp.app import create_app

MISSING = "Without cell eu, whose database is out of reach"
SECOND = timedelta(seconds=1)
INGEST = {"Authorization": f"Bearer {INGEST_KEY}"}
OVER_ALL = ("/", "/runs", "/experiments", "/breakdown", "/find?q=p", "/admin/budgets", "/admin/audit", "/admin/clients")


@dataclass
class Cells:
    """The databases of two cells, and the application over both."""

    app: Quart
    main: Database
    eu: Database
    main_url: str
    eu_url: str

    async def post(self, to: str, *runs: dict[str, Any], app: Quart | None = None) -> Response:
        body = {"projectId": to, "runs": list(runs or (make_run(),))}
        return await (app or self.app).test_client().post("/api/ingest", json=body, headers=INGEST)

    async def where(self, project_id: str) -> list[str]:
        """The cells that have runs of a project."""
        found = []
        for name, database in (("main", self.main), ("eu", self.eu)):
            async with database.connection() as connection:
                if await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id):
                    found.append(name)
        return found

    async def open(self, *names: str) -> None:
        """Let new projects be put into these cells alone."""
        for name in ("main", "eu"):
            await directory.let_take(self.main, OPERATOR, name, is_open=name in names)

    @asynccontextmanager
    async def with_url(self, eu_url: str) -> AsyncIterator[Quart]:
        """The application with another URL of the cell."""
        app = create_app(settings_for(self.main_url, service_dev_mode=True, cell_urls={"eu": eu_url}))
        async with app.test_app() as running:
            yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture(scope="module")
def urls(postgres: Postgres) -> Iterator[tuple[str, str]]:
    yield postgres.create("cells_main", SEEDED), postgres.create_migrated("cells_eu", CELL, REPORTING)
    postgres.drop("cells_main")
    postgres.drop("cells_eu")


@pytest.fixture(scope="module")
async def cells(urls: tuple[str, str]) -> AsyncIterator[Cells]:
    main_url, eu_url = urls
    async with Database(main_url) as main, Database(eu_url) as eu:
        for name, database in (("main", main), ("eu", eu)):
            await directory.add(main, name, database, system_clock())
        app = create_app(settings_for(main_url, service_dev_mode=True, cell_urls={"eu": eu_url}))
        async with app.test_app() as running:
            cells = Cells(running.app, main, eu, main_url, eu_url)  # type: ignore[attr-defined]  # As above.
            assert (
                await cells.post("here", make_run(runId="one", costUSD=1, experimentId="of-main"))
            ).status_code == 200
            await cells.open("eu")
            runs = (
                make_run(runId="one", metadata={"feature": "x"}, sessionId="s", experimentId="of-eu"),
                make_run(costUSD=2),
            )
            assert (await cells.post("p", *runs)).status_code == 200
            await until_merged(main)
            await until_merged(eu)
            yield cells


async def test_a_new_project_is_put_into_an_open_cell_and_stays_there(cells: Cells) -> None:
    await cells.open("main")
    await cells.post("stays")
    await cells.open("eu")
    await cells.post("stays")

    assert (await cells.where("stays"), await cells.where("p"), await cells.where("here")) == (
        ["main"],
        ["eu"],
        ["main"],
    )


async def test_a_new_project_goes_where_the_fewest_are(cells: Cells) -> None:
    await cells.open("main", "eu")
    async with cells.main.connection() as connection:
        before = {one.name: one.projects for one in await directory.select_cells(connection)}
    for number in range(abs(before["main"] - before["eu"]) + 2):
        await cells.post(f"even-{number}")
    async with cells.main.connection() as connection:
        after = {one.name: one.projects for one in await directory.select_cells(connection)}

    assert abs(after["main"] - after["eu"]) <= 1


async def test_without_an_open_cell_new_projects_are_refused_and_others_go_on(cells: Cells) -> None:
    await cells.open()
    refused, taken = await cells.post("nowhere"), await cells.post("p")
    await cells.open("eu")

    assert (refused.status_code, taken.status_code) == (503, 200)
    assert "no_open_cell" in await refused.get_data(as_text=True)


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_finds_a_project_in_its_cell(cells: Cells, page: str) -> None:
    response = await cells.app.test_client().get(page)

    assert response.status_code == 200, await response.get_data(as_text=True)


@pytest.mark.parametrize("page", OVER_ALL)
async def test_pages_about_all_projects_open(cells: Cells, page: str) -> None:
    response = await cells.app.test_client().get(page)

    assert response.status_code == 200, text_of(await response.get_data(as_text=True))


async def test_the_overview_adds_up_all_cells(cells: Cells) -> None:
    for project_id, cost in (("here", 4_321), ("p", 1_111)):
        await cells.post(project_id, make_run(model="added-up", costUSD=cost))
    await until_merged(cells.main)
    await until_merged(cells.eu)
    client = cells.app.test_client()
    page = await html_of(client, "/?range=30d")

    assert all(f'href="/projects/{project_id}' in page for project_id in ("here", "p"))
    assert "$5,432" in text_of(await html_of(client, "/?range=30d&model=added-up"))


async def test_a_busy_cell_is_refused_and_not_left_out(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    client, eu = cells.app.test_client(), cells.app.extensions[EXTENSION].cells.named("eu")
    async with AsyncExitStack() as stack:
        for _ in range(PAGE_CONNECTIONS):
            await stack.enter_async_context(eu.database.connection())
        monkeypatch.setattr(pools, "CONNECT_SECONDS", 2.0)
        refused = [await client.get(one) for one in ("/api/metrics?aggregate=1", "/admin/audit")]
    whole = await client.get("/api/metrics?aggregate=1")

    assert [answer.status_code for answer in refused] == [503, 503]
    assert whole.status_code == 200
    assert "missingCells" not in await whole.get_json()


async def test_the_newest_runs_are_listed_as_far_as_every_cell_was_read(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the runs of a time that has no others, main's are too many to be read in one walk, and those of eu are not."""
    of = datetime(2021, 3, 10, 12, tzinfo=UTC)
    since = of - timedelta(days=3)
    others = (make_run(timestamp=(of + number * SECOND).isoformat()) for number in range(33))
    await cells.post("here", *others)
    for project_id, days in (("here", 1), ("p", 2)):
        at = (of - timedelta(days=days)).isoformat()
        await cells.post(project_id, make_run(runId=f"seldom-{project_id}", errorCode="seldom", timestamp=at))
    run_filter = RunFilter(error_code="seldom", range=Period.ALL, since=since, until=of + timedelta(days=1))

    async def newest() -> list[str]:
        async with cells.main.snapshot() as main, cells.eu.snapshot() as eu:
            found = await read.read_newest([RunSource(main), RunSource(eu)], run_filter, system_clock(), 20)
        return [run.id for run in found]

    assert await newest() == ["seldom-here", "seldom-p"]
    monkeypatch.setattr(read, "MATCHING_STEPS", 30)
    assert await newest() == []


async def test_the_breakdown_adds_up_all_cells(cells: Cells) -> None:
    client, at = cells.app.test_client(), (system_clock() - timedelta(days=6)).isoformat()
    for project_id, model in (("here", "both"), ("p", "both"), ("here", "only-here"), ("p", "only-there")):
        await cells.post(project_id, make_run(model=model, timestamp=at), make_run(model=model, timestamp=at))

    page = text_of(await html_of(client, "/breakdown?range=30d&by=model")).split()
    file = await client.get("/breakdown.csv?range=30d&groupBy=model&bucketWidth=1d")

    rows = csv.DictReader(io.StringIO(await file.get_data(as_text=True)))
    runs = {row["model"]: int(row["runs"]) for row in rows}
    assert (runs["both"], runs["only-here"], runs["only-there"]) == (4, 2, 2)
    assert {"both", "only-here", "only-there"} <= {*page}


async def test_the_explorer_pages_through_the_runs_of_all_cells_in_their_order(cells: Cells) -> None:
    at = system_clock() - timedelta(days=4)
    for project_id, odd in (("here", 0), ("p", 1)):
        await cells.post(
            project_id,
            *(
                make_run(
                    runId=f"paged-{number:03}",
                    model="paged",
                    timestamp=(at + number * SECOND).isoformat(),
                    costUSD=number,
                )
                for number in range(odd, 120, 2)
            ),
        )
    client, expected = cells.app.test_client(), [f"paged-{number:03}" for number in range(119, -1, -1)]

    found, url = list[str](), "/runs?model=paged"
    while url:
        html = await html_of(client, url)
        found += re.findall(r"/runs/(paged-\d+)\"", html)
        (url,) = re.findall(r'href="([^"]+)"[^>]*>Older', html) or ("",)
        url = unescape(url)
    costliest = re.findall(r"/runs/(paged-\d+)\"", await html_of(client, "/runs?model=paged&sort=cost&page=2"))
    file = await (await client.get("/runs/export.csv?model=paged")).get_data(as_text=True)

    assert list(dict.fromkeys(found)) == expected
    assert list(dict.fromkeys(costliest)) == expected[50:100]
    assert [row["id"] for row in csv.DictReader(io.StringIO(file))] == expected
    assert "120 runs" in text_of(await html_of(client, "/runs?model=paged"))


async def test_a_search_finds_what_is_in_any_cell(cells: Cells) -> None:
    client = cells.app.test_client()

    for text in ("here", "p"):
        assert f"/projects/{text}" in await html_of(client, f"/find?q={text}")
    both = text_of(await html_of(client, "/find?q=one"))
    assert "one in here" in both
    assert "one in p" in both


async def test_experiments_of_all_cells_are_listed_and_compared(cells: Cells) -> None:
    client = cells.app.test_client()
    listed = text_of(await html_of(client, "/experiments"))
    compared = await html_of(client, "/experiments/compare?a=here/of-main&b=p/of-eu")

    assert "of-main" in listed
    assert "of-eu" in listed
    assert "of-main and of-eu" in text_of(compared)


async def test_the_audit_log_has_the_entries_of_all_cells_page_by_page(cells: Cells) -> None:
    client = cells.app.test_client()
    for name in (*(f"-{number}" for number in range(30)), ""):
        for project_id in ("here", "p"):
            form = {"name": f"{project_id}{name}"}
            answer = await client.post(f"/projects/{project_id}/settings/name", form=form)
            assert answer.status_code == 303, text_of(await answer.get_data(as_text=True))

    seen, url = list[str](), "/admin/audit"
    while url:
        html = await html_of(client, url)
        seen += re.findall(r"\b(?:here|p)-\d+\b", text_of(html))
        (url,) = re.findall(r'href="([^"]+)"[^>]*>Older', html) or ("",)
        url = unescape(url)

    assert {f"{project_id}-{number}" for project_id in ("here", "p") for number in range(30)} <= {*seen}


async def test_prices_know_the_models_of_all_cells(cells: Cells) -> None:
    for project_id in ("here", "p"):
        await cells.post(project_id, make_run(provider="cells-vendor", model=f"unpriced-of-{project_id}"))

    page = text_of(await html_of(cells.app.test_client(), "/admin/prices"))

    assert "unpriced-of-here" in page
    assert "unpriced-of-p" in page


async def test_metrics_of_all_projects_are_those_of_all_cells(cells: Cells) -> None:
    client = cells.app.test_client()

    async def sums(query: str) -> tuple[int, Decimal]:
        await until_merged(cells.main)
        await until_merged(cells.eu)
        points = (await (await client.get(f"/api/metrics?range=30d&{query}")).get_json())["points"]
        return sum(one["runs"] for one in points), sum((Decimal(str(one["costUSD"])) for one in points), Decimal(0))

    for _ in range(100):
        every, main, eu, again = [await sums(f"aggregate=1{cell}") for cell in ("", "&cell=main", "&cell=eu", "")]
        # Otherwise a run got the price that another test has added meanwhile.
        if again == every:
            break

    assert every == (main[0] + eu[0], main[1] + eu[1])
    assert min(main[0], eu[0]) > 0


async def test_percentiles_of_all_projects_are_those_of_all_their_runs(cells: Cells) -> None:
    at = (system_clock() - timedelta(days=3)).replace(hour=12, minute=0).isoformat()
    latencies = [number**2 for number in range(1, 41)]
    for project_id, chosen in (("here", latencies[::2]), ("p", latencies[1::2])):
        await cells.post(project_id, *(make_run(timestamp=at, latencyMs=latency) for latency in chosen))
    await until_merged(cells.main)
    await until_merged(cells.eu)

    answer = await cells.app.test_client().get("/api/metrics?range=7d&aggregate=1")

    (found,) = [one["p95LatencyMs"] for one in (await answer.get_json())["points"] if one["runs"] == len(latencies)]
    exact = nearest_rank(latencies, 95)
    assert abs(found - exact) <= exact / 100


@pytest.mark.parametrize(
    "groups", ["groupBy=model", "groupBy=metadata.feature", "groupBy=status&groupBy=model", "groupBy=key"]
)
async def test_usage_of_all_projects_adds_up_all_cells(cells: Cells, groups: str) -> None:
    client = cells.app.test_client()

    async def totals(cell: str) -> list[dict[str, Any]]:
        answer = await client.get(f"/api/usage?aggregate=1&range=30d&{groups}{cell}")
        assert answer.status_code == 200, await answer.get_data(as_text=True)
        return (await answer.get_json(force=True))["totals"]  # type: ignore[no-any-return]  # As above.

    every, main, eu, again = [await totals(cell) for cell in ("", "&cell=main", "&cell=eu", "")]
    for _ in range(100):
        if again == every:
            break
        # Meanwhile a run got the price that another test has added.
        every, main, eu, again = [await totals(cell) for cell in ("", "&cell=main", "&cell=eu", "")]

    for figure in ("runs", "inputTokens", "costUSD"):
        added: dict[str, Decimal] = {}
        for one in (*main, *eu):
            group = str(one["group"])
            added[group] = added.get(group, Decimal(0)) + Decimal(str(one[figure]))
        assert {str(one["group"]): Decimal(str(one[figure])) for one in every} == added
    assert min(sum(one["runs"] for one in cell) for cell in (main, eu)) > 0


async def test_percentiles_of_usage_over_all_projects_are_those_of_all_their_runs(cells: Cells) -> None:
    # Out of the time of the test of metrics.
    day = (system_clock() - timedelta(days=9)).replace(hour=12, minute=0)
    latencies = [number**2 for number in range(1, 41)]
    for project_id, chosen in (("here", latencies[::2]), ("p", latencies[1::2])):
        await cells.post(project_id, *(make_run(timestamp=day.isoformat(), latencyMs=latency) for latency in chosen))
    query = f"start={day:%Y-%m-%dT00:00:00Z}&end={day + timedelta(days=1):%Y-%m-%dT00:00:00Z}&bucketWidth=1d"

    answer = await cells.app.test_client().get(f"/api/usage?aggregate=1&{query}")

    found = await answer.get_json()
    exact = nearest_rank(latencies, 95)
    for (one,) in (found["totals"], found["buckets"][0]["groups"]):
        assert one["runs"] == len(latencies)
        assert abs(one["p95LatencyMs"] - exact) <= exact / 100


async def test_a_badge_is_found_in_whichever_cell_its_experiment_is(cells: Cells) -> None:
    client = cells.app.test_client()
    answers = [await client.get(f"/api/badge/experiment/{one}.svg") for one in ("of-main", "of-eu")]

    assert [answer.status_code for answer in answers] == [200, 200]


async def test_spans_of_several_projects_go_to_their_cells(cells: Cells) -> None:
    await cells.open("eu")
    spans = [
        make_request(make_span(traceId="00" * 15 + number), resource={"runtally.project": project_id})
        for number, project_id in (("01", "here"), ("02", "new-of-otlp"))
    ]
    answer = await cells.app.test_client().post(
        "/v1/traces", data=as_json(joined(*spans)), headers=INGEST | {"Content-Type": "application/json"}
    )

    assert answer.status_code == 200, await answer.get_data(as_text=True)
    assert (await cells.where("here"), await cells.where("new-of-otlp")) == (["main"], ["eu"])


async def test_runs_of_all_cells_are_repriced(cells: Cells) -> None:
    client = cells.app.test_client()
    price = {"provider": "cells-vendor", "model": "m", "input_per_million": "3", "output_per_million": "3"}
    run = make_run(provider="cells-vendor", model="m", inputTokens=1_000_000, outputTokens=0)
    for project_id in ("here", "p"):
        await cells.post(project_id, run)
    await client.post("/admin/prices/new", form=price)
    made = await client.post("/admin/prices/repricing", form={"provider": "cells-vendor"})

    html = await html_of(client, made.headers["Location"])
    while 'hx-trigger="every' in html:
        html = await html_of(client, made.headers["Location"])

    async with cells.main.connection() as connection:
        row = await connection.fetchrow("SELECT state, runs, seen FROM repricings ORDER BY id DESC LIMIT 1")
    assert row is not None
    # Whether they change depends on who was first: runs without a price get a new one by themselves, too.
    assert (row["state"], row["seen"]) == ("compared", row["runs"])
    assert row["runs"] >= 2


async def test_parked_runs_of_all_cells_are_queued_again(cells: Cells) -> None:
    await cells.post("p", make_run())
    async with cells.eu.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, parked_at, last_error) "
            "VALUES ('p', 'parked', 1, now(), now(), now(), 'refused') ON CONFLICT DO NOTHING"
        )

    answer = await cells.app.test_client().post("/admin/relay/retry", form={})

    async with cells.eu.connection() as connection:
        parked = await connection.fetchval("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL")
        await connection.execute("DELETE FROM outbox WHERE run_id = 'parked'")
    assert (answer.status_code, parked) == (303, 0)


async def test_health_counts_the_waiting_and_parked_runs_of_all_cells(cells: Cells) -> None:
    waiting = 0
    for database, project_id in ((cells.main, "here"), (cells.eu, "p")):
        async with database.connection() as connection:
            waiting += (await get_relay_status(connection)).waiting + 1
            await connection.execute(
                "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, parked_at, last_error) "
                "VALUES ($1, 'parked-of-' || $1, 1, now(), now(), now(), 'refused by the table of ' || $1), "
                "($1, 'waits', 1, now() - interval '1 hour', now(), NULL, NULL)",
                project_id,
            )

    text = text_of(await html_of(cells.app.test_client(), "/admin/health"))

    for database in (cells.main, cells.eu):
        async with database.connection() as connection:
            await connection.execute("DELETE FROM outbox WHERE run_id = 'waits' OR run_id LIKE 'parked-of-%'")
    assert f"Waiting {waiting} Longest wait " in text, text.partition("Reporting pipeline")[2][:120]
    assert "Parked 2" in text
    assert "refused by the table of here" in text
    assert "refused by the table of p" in text
    assert "relay eu 1 runs are parked" in text
    assert "runtally --cell eu relay --list-parked" in text


async def test_a_picture_with_a_token_and_no_project_is_not_there(cells: Cells) -> None:
    answer = await cells.app.test_client().get("/charts/cost.svg?token=of-no-project")

    assert answer.status_code == 404


async def test_a_project_is_erased_in_its_cell(cells: Cells) -> None:
    await cells.open("eu")
    await cells.post("gone")
    answer = await cells.app.test_client().post("/projects/gone/settings/delete", form={"typed": "gone"})

    assert answer.status_code == 303, text_of(await answer.get_data(as_text=True))
    assert await cells.where("gone") == []


async def test_a_dead_cell_refuses_its_own_projects_and_is_named(cells: Cells) -> None:
    nobody = f"postgresql://postgres@127.0.0.1:{free_port()}/nothing"
    async with cells.with_url(nobody) as app:
        client = app.test_client()
        refused, taken = await cells.post("p", app=app), await cells.post("here", app=app)
        page, other = await client.get("/projects/p"), await client.get("/projects/here")
        of_all = [await client.get(f"/api/{one}?aggregate=1") for one in ("metrics", "usage")]
        of_eu = [await client.get(f"/api/{one}?aggregate=1&cell=eu") for one in ("metrics", "usage")]
        files = [
            await client.get(f"/{one}")
            for one in ("api/usage?aggregate=1&format=csv", "breakdown.csv", "runs/export.csv")
        ]
        pages = [await client.get(one) for one in OVER_ALL]
        part = await client.get("/", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        of_main = [await client.get(f"/api/{one}?aggregate=1&cell=main") for one in ("metrics", "usage")]
        health, counts = await client.get("/api/health"), await client.get("/metrics")
        findings = text_of(await html_of(client, "/admin/health"))

    assert (refused.status_code, taken.status_code) == (503, 200)
    assert "Cell eu:" in (await refused.get_json())["error"]["message"]
    assert (page.status_code, other.status_code) == (503, 200)
    assert "The database of cell eu is out of reach" in text_of(await page.get_data(as_text=True))
    assert [answer.status_code for answer in (*of_all, *of_main)] == [200, 200, 200, 200]
    assert [(await answer.get_json(force=True)).get("missingCells") for answer in (*of_all, *of_main)] == [
        ["eu"],
        ["eu"],
        None,
        None,
    ]
    assert [answer.status_code for answer in (*of_eu, *files)] == [503, 503, 503, 503, 503]
    named = [MISSING in text_of(await answer.get_data(as_text=True)) for answer in (*pages, part)]
    assert all(named)
    assert [answer.status_code for answer in pages] == [200 for _ in OVER_ALL]
    assert MISSING not in text_of(await other.get_data(as_text=True))
    assert (health.status_code, (await health.get_json())["cells"]) == (200, {"eu": "unavailable"})
    text = await counts.get_data(as_text=True)
    assert 'runtally_database_up{cell="eu"} 0.0' in text
    assert 'runtally_database_up{cell="main"} 1.0' in text
    assert "cell eu its projects are out of reach" in findings


async def test_a_url_that_leads_to_another_cell_opens_nothing(cells: Cells, postgres: Postgres) -> None:
    us_url = postgres.create_migrated("cells_us", CELL, REPORTING)
    async with Database(us_url) as us:
        await directory.add(cells.main, "us", us, system_clock())
        try:
            with pytest.raises(LifespanError, match="CELL_URLS has no URL of the cell us"):
                async with cells.with_url(us_url):
                    pytest.fail("a cell has no URL")
        finally:
            async with cells.main.connection() as connection:
                await connection.execute("DELETE FROM cells WHERE name = 'us'")
        async with cells.with_url(us_url) as app:
            refused = await cells.post("p", app=app)
            page = await app.test_client().get("/projects/p")
        async with us.connection() as connection:
            written = await connection.fetchval("SELECT count(*) FROM runs")
    postgres.drop("cells_us")

    assert (refused.status_code, page.status_code, written) == (503, 503, 0)
    assert "Cell eu:" in (await refused.get_json())["error"]["message"]
    assert "The database of cell eu is out of reach" in text_of(await page.get_data(as_text=True))


async def test_a_budget_over_all_projects_shows_what_those_of_all_cells_spent(cells: Cells) -> None:
    now = system_clock()
    for project_id in ("here", "p"):
        await cells.post(project_id, make_run(costUSD=1_000))
    await until_merged(cells.main)
    await until_merged(cells.eu)
    client = cells.app.test_client()
    set_ = await client.post("/admin/budgets", form={"amount": "1", "alerts": ""})
    assert set_.status_code == 303

    async def uses() -> tuple[Use | None, Use | None]:
        async with cells.main.snapshot() as main, cells.eu.snapshot() as eu:
            return await get_use(main, "", now, [eu]), await get_use(main, "", now)

    for _ in range(100):
        before, page = await uses(), text_of(await html_of(client, "/admin/budgets"))
        use, alone = await uses()
        # Otherwise a run got the price that another test has added meanwhile.
        if before == (use, alone):
            break
    assert use is not None
    assert alone is not None
    assert use.spent_usd >= alone.spent_usd + 1_000
    # What is left depends on a forecast, which needs a day of runs; what is over does not.
    assert f"${use.spent_usd - use.amount_usd:,.2f} over budget" in page

"""The files of the run explorer: the runs of its filter, whole or not at all."""

import asyncio
import csv
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from arro3.io import read_parquet
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access.keys import SHARED_KEY_ID
from runtally.clock import system_clock
from runtally.db.database import Connection
from runtally.db.replica import Reader
from runtally.errors import StoreBusy
from runtally.limits.downloads import MOST_OF_ONE
from tests.factories import make_run
from tests.lines import Line
from tests.pages.conftest import Post, ago
from tests.pages.looking import Outline, html_of
from tests.serving import PATIENCE_SECONDS
from webapp.pages.runs.export import FRAMES


async def test_files_have_the_runs_of_the_filter(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(runId="a", errorCode="-1", metadata={"user": "ann", "n": [1]}),
        make_run(runId="=1+1", model="acme-cached", costUSD=1),
    )
    query = f"project={project_id}"

    table = await reader.get(f"/runs/export.csv?{query}")
    lines = await reader.get(f"/runs/export.jsonl?{query}&model=acme-large")

    rows = list(csv.DictReader((await table.get_data(as_text=True)).splitlines()))
    assert table.headers["Content-Disposition"] == 'attachment; filename="runs.csv"'
    # A spreadsheet must not compute an id.
    assert {row["id"] for row in rows} == {"a", "'=1+1"}
    # It reads a negative number as this number, as others do.
    assert {row["error_code"] for row in rows} == {"-1", ""}
    assert {row["cost_usd"] for row in rows} == {"0.0105"}
    assert {row["metadata"] for row in rows} == {'{"n":[1],"user":"ann"}', ""}
    columns = await reader.get(f"/runs/export.parquet?{query}")
    assert columns.headers["Content-Type"] == "application/vnd.apache.parquet"
    packed = read_parquet(BytesIO(await columns.get_data(as_text=False))).read_all()
    assert set(packed["id"].to_pylist()) == {"a", "=1+1"}
    [run] = [json.loads(line) for line in (await lines.get_data(as_text=True)).splitlines()]
    assert (run["id"], run["metadata"], run["cost_usd"]) == ("a", {"user": "ann", "n": [1]}, 0.0105)


@pytest.mark.parametrize("range_", ["24h", "7d"])
async def test_runs_of_a_clock_that_is_ahead_are_in_no_file_no_list_and_no_sum_of_a_range_that_ends_now(
    reader: Browser, post: Post, project_id: str, metrics_key: str, range_: str
) -> None:
    ahead = system_clock() + timedelta(hours=20)
    await post(make_run(runId="now"), make_run(runId="ahead", timestamp=ahead.isoformat()))
    query = f"project={project_id}&range={range_}"

    table = await reader.get(f"/runs/export.csv?{query}")
    listed = await html_of(reader, f"/runs?{query}")
    sums = await reader.get(
        f"/api/metrics?projectId={project_id}&range={range_}", headers={"Authorization": f"Bearer {metrics_key}"}
    )

    rows = csv.DictReader((await table.get_data(as_text=True)).splitlines())
    assert [row["id"] for row in rows] == ["now"]
    assert sum(point["runs"] for point in (await sums.get_json())["points"]) == 1
    assert '/runs/now"' in listed
    assert '/runs/ahead"' not in listed
    assert '/runs/ahead"' in await html_of(reader, f"/runs?project={project_id}&range=all")


async def test_csv_saved_from_a_page_begins_with_the_mark_that_tells_excel_it_is_utf_8(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(userId="Zoë"))
    pages = f"/runs?project={project_id}", f"/breakdown?project={project_id}&by=user"
    links = [link["href"] or "" for page in pages for link in Outline(await html_of(reader, page)).all("a")]
    saved = [link for link in links if ".csv?" in link]

    marked = [await (await reader.get(link)).get_data(as_text=False) for link in saved]
    plain = await (await reader.get(f"/runs/export.csv?project={project_id}")).get_data(as_text=False)
    framed = await (await reader.get(saved[0], headers={"Accept": FRAMES})).get_data(as_text=False)

    assert len(saved) == 2
    assert [(data[:3], data.count(b"\xef\xbb\xbf"), "Zoë".encode() in data) for data in marked] == [
        (b"\xef\xbb\xbf", 1, True)
    ] * 2
    assert b"\xef\xbb\xbf" not in plain
    assert framed.count(b"\xef\xbb\xbf") == 1


async def test_a_file_saved_from_a_sorted_list_keeps_its_order_and_may_end_after_its_first_runs(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        *(make_run(runId=f"cheap-{n}", inputTokens=n, status="error") for n in range(3)),
        make_run(runId="dear", inputTokens=9_000, status="error"),
        make_run(runId="unpriced", model="unknown", status="error"),
        make_run(runId="answered", inputTokens=99_000),
    )
    page = f"/runs?project={project_id}&status=error&sort=cost"
    links = [link["href"] or "" for link in Outline(await html_of(reader, page)).all("a")]
    [saved] = [link for link in links if "export.jsonl" in link]

    async def ids(address: str) -> list[str]:
        data = await (await reader.get(address)).get_data(as_text=True)
        return [json.loads(line)["id"] for line in data.splitlines()]

    assert await ids(saved) == ["dear", "cheap-2", "cheap-1", "cheap-0", "unpriced"]
    assert await ids(f"{saved}&first=2") == ["dear", "cheap-2"]
    assert await ids(saved.replace("sort=cost", "sort=-cost&first=2")) == ["cheap-0", "cheap-1"]
    assert await ids(saved.replace("sort=cost", "first=1")) == ["unpriced"]


async def test_a_page_of_a_list_is_saved_as_a_file_of_its_runs(reader: Browser, post: Post, project_id: str) -> None:
    await post(*(make_run(runId=f"run-{n:03}", inputTokens=n, timestamp=ago(minutes=n + 1)) for n in range(53)))

    async def pages(address: str) -> list[list[str]]:
        """The runs of the file of each page, from the first."""
        found = []
        while address:
            outline = Outline(await html_of(reader, address))
            [_, saved] = [link["href"] or "" for link in outline.all("a") if "export.jsonl" in (link["href"] or "")]
            data = await (await reader.get(saved)).get_data(as_text=True)
            found.append([json.loads(line)["id"] for line in data.splitlines()])
            address = (outline.by_id("runs-older")["href"] or "") if "runs-older" in outline.ids() else ""
        return found

    newest = [f"run-{n:03}" for n in range(53)]
    assert await pages(f"/runs?project={project_id}") == [newest[:50], newest[50:]]
    dearest = newest[::-1]
    assert await pages(f"/runs?project={project_id}&sort=tokensIn") == [dearest[:50], dearest[50:]]


@pytest.mark.parametrize("wrong", ["first=0", "first=few", "sort=colour", "page=0", "before=here"])
async def test_a_file_of_an_order_that_there_is_not_is_refused(reader: Browser, wrong: str) -> None:
    refused = await reader.get(f"/runs/export.csv?{wrong}")

    assert refused.status_code == 400
    assert "must be" in await refused.get_data(as_text=True)


async def test_files_have_the_user_and_the_key_of_a_run(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(userId="ann", sessionId="s-1", tags=["a,b", "c"]))
    query = f"project={project_id}"

    table = await reader.get(f"/runs/export.csv?{query}")
    lines = await reader.get(f"/runs/export.jsonl?{query}")
    columns = await reader.get(f"/runs/export.parquet?{query}")

    [row] = csv.DictReader((await table.get_data(as_text=True)).splitlines())
    line = json.loads(await lines.get_data(as_text=True))
    packed = read_parquet(BytesIO(await columns.get_data(as_text=False))).read_all()
    assert (row["user_id"], row["session_id"], row["tags"]) == ("ann", "s-1", '["a,b","c"]')
    assert (line["user_id"], line["session_id"], line["tags"]) == ("ann", "s-1", ["a,b", "c"])
    assert packed["tags"].to_pylist() == ['["a,b","c"]']
    assert row["key_id"] == line["key_id"] == packed["key_id"].to_pylist()[0] == str(SHARED_KEY_ID)


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ({"inputTokens": 0, "outputTokens": 0}, "0"),
        ({"provider": "openrouter", "costUSD": 1e-8}, "0.00000001"),
        ({"provider": "openrouter", "costUSD": 0.0105}, "0.0105"),
        ({"provider": "openrouter", "costUSD": 120}, "120"),
    ],
)
async def test_amounts_are_written_alike_in_all_files(
    reader: Browser, post: Post, project_id: str, told: dict[str, Any], written: str
) -> None:
    await post(make_run(**told))
    query = f"project={project_id}"

    lines = await reader.get(f"/runs/export.jsonl?{query}")
    table = await reader.get(f"/runs/export.csv?{query}")

    [row] = csv.DictReader((await table.get_data(as_text=True)).splitlines())
    [line] = (await lines.get_data(as_text=True)).splitlines()
    assert row["cost_usd"] == written
    assert f'"cost_usd":{written},' in line
    assert ("costUSD" in told) == (f'"reported_cost_usd":{written},' in line)


async def test_a_file_in_frames_tells_its_number_of_runs_so_far(reader: Browser, post: Post, project_id: str) -> None:
    await post(*(make_run() for _ in range(3)))
    url = f"/runs/export.parquet?project={project_id}"

    response = await reader.get(url, headers={"Accept": FRAMES})

    rest, parts, counts = await response.get_data(as_text=False), b"", list[int]()
    while rest:
        runs, size = struct.unpack_from(">II", rest)
        counts.append(runs)
        parts, rest = parts + rest[8 : 8 + size], rest[8 + size :]
    assert response.headers["Content-Type"] == FRAMES
    assert counts[-1] == 3
    assert size == 0
    assert read_parquet(BytesIO(parts)).read_all().num_rows == 3


async def test_there_is_no_file_of_nothing(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    assert "Parquet" in await html_of(reader, f"/runs?project={project_id}")
    assert "Parquet" not in await html_of(reader, f"/runs?project={project_id}&model=none")


@pytest.mark.parametrize("query", ["xlsx", "csv?minCost=much"])
async def test_a_file_that_cannot_be_made_is_refused(reader: Browser, query: str) -> None:
    assert (await reader.get(f"/runs/export.{query}")).status_code == 400


async def test_a_misspelt_filter_is_refused_instead_of_writing_all_runs(reader: Browser) -> None:
    refused = await reader.get("/runs/export.csv?colour=acme-large&metadata.team=search")
    odd = await reader.get("/runs/export.csv?%3Cscript%3E=1")

    assert (refused.status_code, odd.status_code) == (400, 400)
    assert "colour: is no filter" in await refused.get_data(as_text=True)
    assert "script&gt;=" not in await odd.get_data(as_text=True)


async def test_a_file_for_which_there_is_no_connection_is_an_error_and_not_half_a_file(
    reader: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def busy(_self: Reader) -> AsyncIterator[Connection]:
        raise StoreBusy
        yield  # Never: what makes it a generator.

    monkeypatch.setattr(Reader, "for_downloads", busy)

    assert (await reader.get("/runs/export.csv")).status_code == 503


@pytest.fixture
async def stopped_reader(app: Quart) -> AsyncIterator[Callable[[str], Line]]:
    """Begins a download and reads nothing of it."""
    async with AsyncExitStack() as stack:

        def begin(path: str) -> Line:
            line = Line(app, app)
            stack.push_async_callback(line.end)
            line.protocol.pause_writing()
            line.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return line

        yield begin


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110  # Nothing in the service says when.
            await asyncio.sleep(0.01)


async def test_a_reader_has_two_downloads_at_once(
    app: Quart, reader: Browser, post: Post, project_id: str, stopped_reader: Callable[[str], Line]
) -> None:
    await post()
    path = f"/runs/export.csv?project={project_id}"
    under_way = app.extensions[EXTENSION].downloads.under_way
    begun = [stopped_reader(path) for _ in range(MOST_OF_ONE)]
    await until(lambda: under_way.total() == MOST_OF_ONE)

    refused = await reader.get(path)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert "2 of your downloads are under way already" in await html_of(reader, path, status=429)

    # Its reader goes away.
    begun[0].protocol.connection_lost(None)
    await until(lambda: under_way.total() < MOST_OF_ONE)
    assert (await reader.get(path)).status_code == 200

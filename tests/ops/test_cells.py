"""Cells as processes: one is added while clients post, and then killed. Nothing that was acknowledged is lost."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import httpx
import pytest

from runtally.audit import list_entries
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.db.dsn import CONNECT_SECONDS
from runtally.embedded.server import Server as Embedded
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.commands import Finished, run, run_beside
from tests.factories import make_run
from tests.ops.processes import children_of, is_running, server_pid, until
from tests.serving import INGEST_KEY, SEEDED, Postgres, client_of, free_port, running_server

CLIENTS = 4
BATCH = 5
OF_EACH_PROJECT = 4
PAUSE_SECONDS = 0.02
SECONDS = 120
STORED = "SELECT project_id, id FROM runs"


@dataclass
class Installation:
    """A database with prices, and a server of its own for a cell."""

    url: str
    eu: Embedded
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": self.url,
            "DATA_DIR": str(self.folder / "none"),
            "CELL_URLS": f"eu={self.eu.url}",
        }

    def run(self, *arguments: str, **more: str) -> Finished:
        return run(*arguments, environment=self.environment | more)

    async def run_beside(self, *arguments: str) -> Finished:
        done = await run_beside(*arguments, environment=self.environment)
        assert done.code == 0, done.err
        return done

    @property
    def family(self) -> list[int]:
        """The processes of the cell's server."""
        pid = server_pid(self.folder)
        assert pid is not None
        return [pid, *children_of(pid)]

    def kill_eu(self) -> None:
        family = self.family
        os.kill(family[0], SIGKILL)
        until(lambda: not any(map(is_running, family)))

    @contextmanager
    def hanging_eu(self) -> Iterator[None]:
        """Stop the cell's server where it is."""
        family = self.family
        for pid in family:
            os.kill(pid, SIGSTOP)
        try:
            yield
        finally:
            for pid in family:
                os.kill(pid, SIGCONT)


@pytest.fixture
def installation(postgres: Postgres, data_dir: Path) -> Iterator[Installation]:
    eu = Embedded(data_dir)
    eu.start_or_adopt()
    yield Installation(postgres.create("cells_ops", SEEDED), eu, data_dir)
    eu.stop()
    postgres.drop("cells_ops")


@dataclass
class Load:
    """Clients that post batch after batch, some to new projects, each again until it is acknowledged."""

    urls: list[str]
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def on(self) -> AsyncIterator[None]:
        posting = [asyncio.create_task(self._post(number)) for number in range(CLIENTS)]
        try:
            yield
        finally:
            self._done.set()
            await asyncio.gather(*posting)

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    async def until_more(self, batches: int = 2 * CLIENTS * OF_EACH_PROJECT) -> None:
        wanted = len(self.acknowledged) + batches * BATCH
        await self.until(lambda: len(self.acknowledged) >= wanted)

    async def _post(self, number: int) -> None:
        batch = 0
        while not self._done.is_set():
            project_id = f"load-{number}-{batch // OF_EACH_PROJECT}"
            runs = [make_run(runId=f"{batch}-{each}") for each in range(BATCH)]
            try:
                async with client_of(self.urls[-1], {"Authorization": f"Bearer {INGEST_KEY}"}) as client:
                    answer = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})
            except httpx.TransportError:
                continue
            if answer.is_success:
                self.acknowledged |= {(project_id, run_id) for run_id in answer.json()["ids"]}
                batch += 1
            else:
                self.refused[answer.status_code] += 1
                # The project of another cell next, as other clients would.
                batch += OF_EACH_PROJECT
            self._changed.set()
            await asyncio.sleep(PAUSE_SECONDS)


async def stored_in(url: str) -> Counter[tuple[str, str]]:
    async with Database(url) as database:
        async with database.connection() as connection:
            stored = Counter((row[0], row[1]) for row in await connection.fetch(STORED))
        assert [str(scope) async for scope, found in verify_sums(database, system_clock()) if found] == []
    return stored


async def test_a_cell_that_is_added_under_load_and_killed_loses_nothing(installation: Installation) -> None:
    with running_server(installation.url, LOG_LEVEL="ERROR") as before:
        load = Load([before.url])
        async with load.on():
            await load.until_more()
            await installation.run_beside("cells", "add", "eu")
            await load.until_more()
            cell_urls = installation.environment["CELL_URLS"]
            with running_server(installation.url, LOG_LEVEL="ERROR", CELL_URLS=cell_urls) as after:
                load.urls.append(after.url)
                await load.until_more()
                await installation.run_beside("cells", "open", "eu")
                await load.until_more()

                await asyncio.to_thread(installation.kill_eu)
                await load.until(lambda: bool(load.refused))
                await load.until_more()
                await asyncio.to_thread(installation.eu.start_or_adopt)
                await installation.run_beside("cells", "drain", "main")
                await load.until_more()

    main, eu = await stored_in(installation.url), await stored_in(installation.eu.url)
    both = main + eu
    assert load.acknowledged - both.keys() == set()
    assert max(both.values()) == 1
    assert set(load.refused) <= {503}
    assert {project_id for project_id, _ in main} & {project_id for project_id, _ in eu} == set()
    assert len(eu) >= CLIENTS * BATCH


async def test_pages_name_a_cell_that_hangs_until_it_goes_on(installation: Installation) -> None:
    await installation.run_beside("cells", "add", "eu")
    await installation.run_beside("cells", "open", "eu")
    await installation.run_beside("cells", "drain", "main")
    pages = ("/", "/runs", "/breakdown", "/admin/budgets", "/admin/audit")
    urls = installation.environment["CELL_URLS"]
    with running_server(installation.url, CELL_URLS=urls, SERVICE_DEV_MODE="1", LOG_LEVEL="ERROR") as server:
        async with client_of(server.url, {"Authorization": f"Bearer {INGEST_KEY}"}) as client:

            async def named() -> list[bool]:
                answers = [await client.get(page) for page in pages]
                assert {answer.status_code for answer in answers} == {200}
                return ["Without cell eu" in answer.text for answer in answers]

            await client.post("/api/ingest", json=make_run(projectId="there"))
            assert not any(await named())
            with installation.hanging_eu():
                assert all(await named())
                metrics, health = await client.get("/api/metrics?aggregate=1"), await client.get("/api/health")
                assert metrics.json()["missingCells"] == ["eu"]
                assert health.json()["cells"] == {"eu": "unavailable"}
                # It is known by now, so that nobody waits as for a database that was not tried.
                refused = [
                    await client.post("/api/ingest", json=make_run(projectId="there")),
                    *[await client.get(page) for page in ("/projects/there", "/api/metrics?projectId=there")],
                ]
                assert {answer.status_code for answer in refused} == {503}
                assert max(answer.elapsed.total_seconds() for answer in refused) < CONNECT_SECONDS
            async with asyncio.timeout(SECONDS):
                # Nothing says when a server has noticed.
                while any(await named()):  # noqa: ASYNC110
                    await asyncio.sleep(PAUSE_SECONDS)
            runs = (await client.get("/api/metrics?aggregate=1")).json()["points"]

    assert sum(one["runs"] for one in runs) == 1


def test_a_cell_is_moved_by_a_backup_to_another_server_with_its_identity(
    installation: Installation, postgres: Postgres
) -> None:
    file = str(installation.folder / "eu.zip")
    assert installation.run("cells", "add", "eu").code == 0
    backed_up = installation.run("--cell", "eu", "backup", file)
    elsewhere = f"eu={postgres.create('cells_moved')}"
    before = installation.run("doctor", CELL_URLS=elsewhere)
    restored = installation.run("--cell", "eu", "restore", file, CELL_URLS=elsewhere)
    after = installation.run("doctor", CELL_URLS=elsewhere)
    postgres.drop("cells_moved")

    assert (backed_up.code, restored.code) == (0, 0), backed_up.err + restored.err
    assert "leads to a database that is no cell" in before.out
    assert "cell eu         Postgres" in after.out


async def test_each_cell_has_an_archive_of_its_own(installation: Installation, tmp_path: Path) -> None:
    await installation.run_beside("cells", "add", "eu")
    archive, urls = tmp_path / "archive", installation.environment["CELL_URLS"]
    with running_server(installation.url, CELL_URLS=urls, ARCHIVE_URL=str(archive), LOG_LEVEL="ERROR"):
        markers = sorted(archive.rglob("runtally-archive.json"), key=lambda one: one.parent)
    assert [one.parent for one in markers] == [archive, archive / "cell-eu"]

    of_main, of_eu = markers
    of_eu.write_bytes(of_main.read_bytes())
    refused = await run_beside(
        "serve", "--port", "0", environment=installation.environment | {"ARCHIVE_URL": str(archive)}
    )
    assert refused.code == 1
    assert "another installation" in refused.err


def test_commands_say_which_cell_is_out_of_reach_and_why(installation: Installation) -> None:
    nobody = f"eu=postgresql://runtally@127.0.0.1:{free_port()}/nothing"
    assert installation.run("cells", "add", "eu").code == 0

    for arguments in (("cells", "add", "eu"), ("--cell", "eu", "usage"), ("--cell", "eu", "rollups", "verify")):
        refused = installation.run(*arguments, CELL_URLS=nobody)
        assert refused.code == 1
        assert "The database of cell eu is out of reach: no server takes connections there" in refused.err


async def changes_of(url: str) -> list[tuple[str, str, str, object]]:
    """The newest two entries of the audit log."""
    async with Database(url) as database, database.session() as session:
        return [(one.actor_label, one.action, one.target, one.after) for one in await list_entries(session, limit=2)]


def test_commands_say_which_cells_there_are_and_refuse_what_is_none(
    installation: Installation, postgres: Postgres
) -> None:
    assert "There is one cell, main." in installation.run("cells", "list").out
    assert "CELL_URLS has no URL of a cell us" in installation.run("cells", "add", "us").err
    added, again = installation.run("cells", "add", "eu"), installation.run("cells", "add", "eu")
    assert (added.code, again.code) == (0, 0), added.err + again.err
    assert installation.run("cells", "open", "eu").code == 0
    assert installation.run("cells", "drain", "main").code == 0
    listed = [line.split() for line in installation.run("cells", "list").out.splitlines()]
    assert [(name, takes) for name, _, takes, *_ in listed] == [("main", "no"), ("eu", "new")]
    assert asyncio.run(changes_of(installation.url)) == [
        ("command line", "cell.drained", "main", {"isOpen": False}),
        ("command line", "cell.opened", "eu", {"isOpen": True}),
    ]
    doctor = installation.run("doctor")
    assert "cell eu" in doctor.out
    assert "Nothing to do" in installation.run("migrate").out
    verified = installation.run("--cell", "eu", "rollups", "verify")
    assert (verified.code, "Cell eu of main, eu" in verified.err) == (0, True), verified.err
    assert "CELL_URLS has no URL of a cell us" in installation.run("--cell", "us", "rollups", "verify").err

    other = postgres.create("cells_other", SEEDED)
    for url, said in (
        (installation.url, "the cells main and eu have the same database"),
        (other, "leads to a database that is no cell"),
    ):
        refused = installation.run("serve", "--port", "0", CELL_URLS=f"eu={url}")
        assert (refused.code, said in refused.err) == (1, True), refused.err
    for arguments in (("serve", "--port", "0"), ("migrate",)):
        swapped = installation.run(*arguments, DATABASE_URL=installation.eu.url, CELL_URLS=f"eu={installation.url}")
        assert (swapped.code, "the database of the cell eu" in swapped.err) == (1, True), swapped.err
    unnamed = installation.run("serve", "--port", "0", CELL_URLS="")
    assert unnamed.code == 1
    assert unnamed.err.startswith("Error: CELL_URLS has no URL of the cell eu"), unnamed.err
    installation_of_others = installation.run("cells", "add", "us", CELL_URLS=f"eu={installation.eu.url},us={other}")
    assert "the database of an installation" in installation_of_others.err
    postgres.drop("cells_other")

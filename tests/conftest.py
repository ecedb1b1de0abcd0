"""A real Postgres, real servers, and who uses them. Each test has a project of its own."""

import gc
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from zlib import crc32

import httpx
import hypothesis
import pytest
import structlog
from quart import Quart
from quart.testing.app import TestApp
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from runtally import log
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Connection, Database
from runtally.embedded.server import database_url as embedded_url
from runtally.pricing import catalogue
from runtally.settings import Settings
from runtally.usage import masking
from tests.apart import IS_ASKED, opened_apart
from tests.clusters import copy_cluster
from tests.commands import work_seldom
from tests.factories import insert_test_prices
from tests.folders import open_folder
from tests.serving import TEMPLATE, Postgres, Server, client_of, running_server, settings_for
from webapp.app import create_app

pytest_plugins = ["tests.browser_fixtures"]

ACCESSIBILITY = "tests/browser/test_accessibility.py"

# $0 is where it is kept. Two processes at once may both make it.
EXPORT_ONCE = '[ -e "$0" ] || { "$@" > "$0.$$" && mv "$0.$$" "$0"; } && cat "$0"'

# Thousands of tests are collected and stay: looking for garbage among them is a fifth of what that takes.
gc.set_threshold(10_000, 20, 20)

# Speed is measured in benchmarks, not in tests, which run on machines that do other things too.
# Each run tries other examples, so that half as many each time are as many in a week.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=50)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=500)
hypothesis.settings.load_profile("untimed")


# A test that calls a function of the domain sees all names, as a job does. Requests have masks of their own.
masking.use(masking.ALL_NAMES)


class PatientApp(TestApp):
    """Quart's test app, which gives up after 6 s; on a machine that does other things a start takes longer."""

    __test__ = False

    def __init__(self, app: Quart) -> None:
        super().__init__(app, startup_timeout=60, shutdown_timeout=60)


Quart.test_app_class = PatientApp


OF_MACHINE = {
    "tests/browser/": "Chromium, servers and Postgres share the processors, and a page that is drawn late is not found in time",
    "tests/ops/": "programs are started, cut off and killed while others wait for them",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that may be run once more where they fail."""
    for folder, reason in OF_MACHINE.items():
        if item.nodeid.startswith(folder):
            item.add_marker(pytest.mark.machine(reason=reason))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Playwright's own loop keeps async tests from running after it, so browser tests come last, whatever the order."""
    items.sort(key=lambda item: "tests/browser/" in item.nodeid)


def pytest_collection_finish() -> None:
    """Tests and what they import stay until the end, so they are looked through for garbage no more."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Some libraries complain of what is left at the end of a process."""
    gc.unfreeze()


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # The package has no types.
    """All tests of a file go to one process, and those of the browser to three, for about the same time.

    Each process that has any starts a browser, and a server with what there is to see.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file == ACCESSIBILITY:
            return f"{file} {crc32(nodeid.encode()) % 2}"
        return "tests/browser" if file.startswith("tests/browser/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    # With the largest files first, tests of the browser would run before others.
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def unchanged_logs() -> Iterator[None]:
    """Commands that run in this process leave its logs alone: a logger keeps what it found at its first use, for good.

    Errors are printed plainly: with the colours and boxes of a terminal one takes longer than most tests.
    """
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[log.with_request_id, structlog.processors.add_log_level, plain])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "set_up", lambda *_: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def seldom_jobs() -> None:
    work_seldom()


@pytest.fixture(scope="session", autouse=True)
def catalogue_read_once(run_folder: Path) -> Iterator[None]:
    """Making the export takes a second, and it says the same all day; processes that tests start make their own."""
    command = ("/bin/sh", "-c", EXPORT_ONCE, str(run_folder / "catalogue.jsonl"), *catalogue.EXPORT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "EXPORT", command)
        yield


@pytest.fixture(scope="session", autouse=True)
def control_apart() -> Iterator[None]:
    """With APART=1, applications in this process have control and projects in two databases."""
    with opened_apart() if IS_ASKED else nullcontext():
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all processes of one run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def postgres(run_folder: Path) -> Iterator[Postgres]:
    """An embedded Postgres of this process."""
    with open_folder("runtally-tests-") as folder:
        copy_cluster(run_folder, folder)
        with embedded_url(Settings(data_dir=folder, database_url=None)) as url:
            server = Postgres(url)
            server.forget_durability()
            yield server


@pytest.fixture(scope="session")
def database_url(postgres: Postgres) -> str:
    """The database that most tests share: each keeps to its own project."""
    return postgres.create_seeded("shared")


@pytest.fixture
def empty_database_url(postgres: Postgres) -> Iterator[str]:
    """A database of the test's own, for what looks at all projects at once."""
    name = f"own_{uuid.uuid4().hex}"
    yield postgres.create(name, TEMPLATE)
    postgres.drop(name)


@pytest.fixture
async def own(empty_database_url: str) -> AsyncIterator[Database]:
    async with Database(empty_database_url) as database:
        yield database


@pytest.fixture
async def own_connection(own: Database) -> AsyncIterator[Connection]:
    async with own.connection() as connection:
        yield connection


@pytest.fixture(scope="session")
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url) as database:
        await insert_test_prices(database)
        yield database


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """Inside a transaction that is rolled back."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


@pytest.fixture(scope="session")
def server(database: Database, database_url: str) -> Iterator[Server]:
    """The service as it runs in production."""
    with running_server(database_url) as server:
        yield server


@pytest.fixture(scope="session")
def dev_server(postgres: Postgres) -> Iterator[Server]:
    """The service in dev mode, over a database of its own."""
    with running_server(postgres.create_seeded("dev"), SERVICE_DEV_MODE="1") as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """An SDK with the ingest key."""
    headers = {"Authorization": f"Bearer {server.ingest_key}"}
    async with client_of(server.url, headers) as client:
        yield client


@pytest.fixture
async def stranger(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Someone without any key."""
    async with client_of(server.url) as client:
        yield client


@pytest.fixture
def project_id() -> str:
    return f"project-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def metrics_key(database: Database, project_id: str) -> str:
    """A key that reads the metrics of the test's project."""
    async with database.session() as session:
        issued = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
    return issued.secret


@pytest.fixture
async def admin_key(database: Database) -> str:
    async with database.session() as session:
        return issue(session, system_clock(), OPERATOR, project_id=None, scopes=[Scope.ADMIN]).secret


@pytest.fixture(scope="session")
async def app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application in this process, in dev mode; `app.test_client()` asks it."""
    app = create_app(settings_for(database_url, service_dev_mode=True))
    async with app.test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.

"""The application with control and projects in two databases, neither of which has the other's tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest
from quart import Quart
from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import EXTENSION
from runtally.access.erasure import Places, erase_project
from runtally.access.keys import issue
from runtally.access.projects import find_by_id
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db import pair
from runtally.db.database import Database
from runtally.db.schema import CELL, REPORTING
from runtally.errors import NotFound, StoreUnavailable
from runtally.models.databases import DATABASE_ROLES, DatabaseRole
from runtally.models.project import ApiKey
from runtally.services import Services
from tests.factories import make_run
from tests.pages.looking import html_of, text_of
from tests.serving import INGEST_KEY, SEEDED, Postgres, settings_for
from tests.stored import until_merged
from webapp.app import create_app

PAGES = (
    *("/", "/runs", "/runs?project=p&metadata.feature=x", "/experiments", "/breakdown", "/find?q=p", "/projects/p"),
    *("/admin/users", "/admin/audit", "/admin/clients", "/admin/budgets"),
    *(
        "/admin/prices",
        "/admin/prices/new",
        "/admin/prices/tester",
        "/admin/prices/discounts",
        "/admin/prices/repricing",
    ),
    *("/projects/p/costs", "/projects/p/errors", "/projects/p/speed", "/projects/p/cache"),
    *(f"/projects/p/settings{part}" for part in ("", "/tracked-keys", "/names", "/alerts", "/links", "/general")),
    *("/projects/p/compare", "/projects/p/sessions", "/projects/p/budgets", "/projects/p?by=key", "/projects/p/agents"),
    *(
        "/projects/p/runs/one",
        "/charts/cost.json?project=p",
        "/runs/export.csv?project=p",
        "/api/usage?projectId=p&groupBy=key",
    ),
)


@dataclass
class Apart:
    """The application, and its two databases."""

    app: Quart
    control: Database
    cell: Database

    @property
    def places(self) -> Places:
        return Places(self.control, self.cell, self.cell, None)

    async def post(self, *runs: dict[str, object], to: str = "p") -> None:
        headers = {"Authorization": f"Bearer {INGEST_KEY}"}
        body = {"projectId": to, "runs": list(runs)}
        response = await self.app.test_client().post("/api/ingest", json=body, headers=headers)
        assert response.status_code == 200, await response.get_data(as_text=True)


@pytest.fixture(scope="module")
async def apart(postgres: Postgres) -> AsyncIterator[Apart]:
    control_url, cell_url = postgres.create("apart_control", SEEDED), postgres.create_migrated("apart", CELL, REPORTING)
    of_cells = ", ".join(
        name for name, home in DATABASE_ROLES.items() if home in {DatabaseRole.CELL, DatabaseRole.REPORTING}
    )
    postgres.execute(f"DROP TABLE {of_cells} CASCADE", url=control_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Services, "opened", partial(Services.opened, cell_url=cell_url))
        app = create_app(settings_for(control_url, service_dev_mode=True))
        async with app.test_app() as running, Database(control_url) as control, Database(cell_url) as cell:
            apart = Apart(running.app, control, cell)  # type: ignore[attr-defined]  # Quart's TestApp holds it.
            await apart.post(make_run(runId="one", metadata={"feature": "x"}, sessionId="s"), make_run())
            await until_merged(cell)
            yield apart
    postgres.drop("apart_control")
    postgres.drop("apart")


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_finds_its_tables(apart: Apart, page: str) -> None:
    response = await apart.app.test_client().get(page)

    assert response.status_code == 200, await response.get_data(as_text=True)


async def test_a_page_is_sent_again_after_a_change_in_either(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    services: Services = apart.app.extensions[EXTENSION]
    now = services.clock()
    monkeypatch.setitem(apart.app.extensions, EXTENSION, replace(services, clock=lambda: now))

    async def is_known(tag: str) -> bool:
        answer = await apart.app.test_client().get("/projects/p", headers={"If-None-Match": tag})
        return answer.status_code == 304

    async def tag() -> str:
        return (await apart.app.test_client().get("/projects/p")).headers["ETag"]

    # What begins with the service, such as reading the prices, may end between two requests.
    first = await tag()
    while not await is_known(first):
        first = await tag()
    await add_key(apart, "p")
    second = await tag()
    assert not await is_known(first)
    assert (
        await apart.app.test_client().post("/projects/p/settings/budgets", form={"amount": "9", "alerts": ""})
    ).status_code == 303
    assert not await is_known(second)


async def test_runs_are_repriced(apart: Apart) -> None:
    client = apart.app.test_client()
    price = {"provider": "apart-vendor", "model": "m", "input_per_million": "3", "output_per_million": "3"}
    assert (await client.post("/admin/prices/new", form=price)).status_code == 303
    await apart.post(make_run(provider="apart-vendor", model="m", inputTokens=1_000_000, outputTokens=0))
    made = await client.post("/admin/prices/repricing", form={"project": "p"})

    html = await html_of(client, made.headers["Location"])
    while 'hx-trigger="every' in html:
        html = await html_of(client, made.headers["Location"])

    # The process may have read the new price before it stored the run.
    assert any(result in text_of(html) for result in ("Compared. Nothing has changed yet.", "Nothing would change."))


async def test_a_role_is_given_only_in_a_project_that_is_there(apart: Apart) -> None:
    client = apart.app.test_client()
    invited = await client.post("/admin/users/invite", form={"email": "a@b.example", "role": "viewer", "project": "p"})
    refused = await client.post(
        "/admin/users/invite", form={"email": "c@b.example", "role": "viewer", "project": "none"}
    )

    assert (invited.status_code, refused.status_code) == (200, 422)


async def test_a_project_is_erased_in_both(apart: Apart) -> None:
    await apart.post(make_run(), to="gone")
    await add_key(apart, "gone")

    assert await erase_project(apart.places, OPERATOR, "gone") == 1

    assert await left_of(apart, "gone") == (False, 0)
    with pytest.raises(NotFound):
        await erase_project(apart.places, OPERATOR, "gone")


async def test_what_broke_off_between_both_is_erased_the_second_time(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apart.post(make_run(), to="half")
    await add_key(apart, "half")
    with monkeypatch.context() as patch:
        patch.setattr(pair, "sessions", broken_off)
        with pytest.raises(StoreUnavailable):
            await erase_project(apart.places, OPERATOR, "half")

    between = await left_of(apart, "half")
    again = await erase_project(apart.places, OPERATOR, "half")

    assert between == (False, 1)
    assert (again, await left_of(apart, "half")) == (0, (False, 0))


@asynccontextmanager
async def broken_off(last: Database, first: Database) -> AsyncIterator[tuple[AsyncSession, AsyncSession]]:
    """As `pair.sessions`, of which the second one is committed and the other is not."""
    async with last.session() as session:
        async with first.session() as other:
            yield session, other
        raise StoreUnavailable


async def add_key(apart: Apart, project_id: str) -> None:
    async with apart.control.session() as session:
        issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])


async def left_of(apart: Apart, project_id: str) -> tuple[bool, int]:
    """Whether the cell has the project, and how many keys of it control has."""
    async with apart.cell.session() as cell, apart.control.session() as control:
        keys = (await control.exec(select(ApiKey).where(ApiKey.project_id == project_id))).all()
        return await find_by_id(cell, project_id) is not None, len(keys)

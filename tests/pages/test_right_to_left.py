"""Names that are written from right to left, which the text around them is not."""

from urllib.parse import quote

from quart.typing import TestClientProtocol as Browser

from runtally.db.database import Database
from runtally.usage.dimensions import DIMENSIONS
from tests.factories import make_run
from tests.pages.conftest import ago
from tests.pages.looking import Outline
from tests.pages.test_many_names import FILES
from tests.pages.test_roles import ROUTES, path_to
from tests.serving import INGEST_KEY, settings_for
from tests.stored import until_merged
from webapp.app import create_app

NAME = "שלום"
# Their content has no elements, is not shown, or is to be copied as it is.
WITHOUT_ELEMENTS = {"title", "option", "textarea", "script", "style", "pre"}


class Bare(Outline):
    """The names of a page whose direction moves the text around them, each after the elements that it is in."""

    def __init__(self, html: str) -> None:
        self.found: list[str] = []
        super().__init__(html)

    def handle_data(self, data: str) -> None:
        if NAME in data and not {"bdi", *WITHOUT_ELEMENTS} & set(self._open):
            self.found.append(f"{' '.join(self._open[-4:])}: {' '.join(data.split())}")


async def test_a_name_keeps_its_direction_to_itself_wherever_a_page_shows_it(empty_database_url: str) -> None:
    app, headers = create_app(settings_for(empty_database_url, service_dev_mode=True)), {"x-api-key": INGEST_KEY}
    async with app.test_app() as running:
        reader: Browser = running.app.test_client()  # type: ignore[attr-defined]  # Quart's TestApp holds it.
        body = {"projectId": NAME, "runs": [_run(number, days) for number in range(2) for days in (0, 0, 1, 5, 40)]}
        response = await reader.post("/api/ingest", json=body, headers=headers)
        assert response.status_code == 200, await response.get_data(as_text=True)
        async with Database(empty_database_url) as database:
            await until_merged(database)

        pages = {path: await _shown(reader, path) for path in _paths(running.app)}  # type: ignore[attr-defined]

    assert sum(NAME in html for html in pages.values()) > 40
    assert {path: found for path, html in pages.items() if (found := Bare(html).found)} == {}


async def _shown(reader: Browser, path: str) -> str:
    response = await reader.get(quote(path, safe="/?&=%"), follow_redirects=True)
    is_page = response.headers["Content-Type"].startswith("text/html")
    return await response.get_data(as_text=True) if is_page else ""


def _paths(app: object) -> list[str]:
    paths = [
        path_to(app, name, NAME)  # type: ignore[arg-type]
        for name, (method, rule) in ROUTES.items()
        if method == "GET" and rule.endpoint not in FILES
    ]
    paths += [f"{path}?project={NAME}" for path in paths if NAME not in path and "%" not in path]
    for by in (*DIMENSIONS, "metadata.feature"):
        grouped = (f"/projects/{NAME}?", f"/breakdown?project={NAME}&", "/?", f"/lines?project={NAME}&range=30d&")
        paths += [f"{path}by={by}" for path in grouped]
    narrowed = f"range=30d&model={NAME}-model-0&user={NAME}-user-0"
    of = f"{NAME}/{NAME}"
    return [
        *paths,
        *(f"{path}?project={NAME}&{narrowed}" for path in ("/", "/breakdown", "/runs")),
        f"/projects/{NAME}?{narrowed}",
        f"/projects/{NAME}?range=30d&metric=failed&by=errorCode",
        f"/projects/{NAME}/errors?range=30d",
        f"/projects/{NAME}/speed?range=30d",
        f"/projects/{NAME}/cache?range=30d",
        f"/projects/{NAME}/costs?provider=acme&model=acme-large",
        f"/projects/{NAME}/runs/{NAME}-run-0-0",
        f"/projects/{NAME}/traces/{NAME}-trace-0",
        f"/projects/{NAME}/sessions/{NAME}-session-0",
        f"/experiments/{of}-trial-0",
        f"/experiments/compare?a={of}-trial-0&b={of}-trial-1",
        f"/find?q={NAME}",
    ]


def _run(number: int, days: int) -> dict[str, object]:
    def name(field: str) -> str:
        return f"{NAME}-{field}-{number}"

    return make_run(
        runId=f"{NAME}-run-{number}-{days}",
        timestamp=ago(days=days),
        provider=name("provider"),
        model=name("model"),
        experimentId=name("trial"),
        userId=name("user"),
        sessionId=name("session"),
        traceId=name("trace"),
        errorCode=name("code"),
        tags=[name("tag")],
        metadata={"feature": name("feature"), "release": name("release"), "environment": name("environment")},
        status="error",
        costUSD=1 + days,
    )

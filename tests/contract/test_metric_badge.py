"""GET /api/badge/project/{id}.svg: what it shows, to whom, and how it is cached."""

from collections.abc import AsyncIterator
from functools import partial
from xml.etree import ElementTree as ET

import httpx
import pytest

from runtally.access import embeds, projects
from runtally.audit import OPERATOR
from runtally.db.database import Database
from tests.factories import make_run
from tests.serving import Server, client_of
from tests.trials import title


@pytest.fixture
async def readme(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that shows a README: no key, and no Accept header."""
    async with client_of(f"{server.url}/api/badge/project/", {"Accept": "*/*"}) as client:
        yield client


@pytest.fixture
async def token(client: httpx.AsyncClient, database: Database, project_id: str) -> str:
    """Of the charts of a project with two runs, one of which failed."""
    runs = [make_run(latencyMs=1_500), make_run(status="error", latencyMs=1_500)]
    response = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})
    assert response.status_code == 200, response.text
    async with database.session() as session:
        return embeds.allow(session, OPERATOR, await projects.get(session, project_id))


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("cost", "LLM cost, 24h: $0.0210"),
        ("runs", "LLM runs, 24h: 2"),
        ("error-rate", "LLM errors, 24h: 50.00%"),
        ("p95", "LLM p95, 24h: 1.5 s"),
    ],
)
async def test_it_tells_one_figure_of_a_range(
    readme: httpx.AsyncClient, project_id: str, token: str, metric: str, text: str
) -> None:
    badge = await readme.get(f"{project_id}.svg", params={"metric": metric, "range": "24h", "token": token})

    assert title(badge) == text


async def test_without_the_token_only_public_badges_tell_anything(
    readme: httpx.AsyncClient, database: Database, project_id: str, token: str
) -> None:
    async def told(**query: str) -> str | None:
        return title(await readme.get(f"{project_id}.svg", params={"metric": "runs", **query}))

    assert await told() == "LLM runs, 30d: unknown"
    assert await told(token="wrong") == "LLM runs, 30d: unknown"
    assert await told(token=token) == "LLM runs, 30d: 2"

    async with database.session() as session:
        embeds.set_public_badges(session, OPERATOR, await projects.get(session, project_id), is_public=True)
    assert await told() == "LLM runs, 30d: 2"

    async with database.session() as session:
        embeds.set_public_badges(session, OPERATOR, await projects.get(session, project_id), is_public=False)
    assert await told() == "LLM runs, 30d: unknown"


@pytest.mark.parametrize("query", [{"metric": "secrets"}, {"range": "99y"}], ids=str)
async def test_what_cannot_be_told_is_a_grey_badge_and_no_broken_picture(
    readme: httpx.AsyncClient, project_id: str, token: str, query: dict[str, str]
) -> None:
    badge = await readme.get(f"{project_id}.svg", params={"token": token, **query})

    assert title(badge) == "LLM: unknown"
    assert title(await readme.get("none-such.svg")) == "LLM cost, 30d: unknown"


async def test_a_label_and_a_style_are_chosen_and_nothing_breaks_out_of_them(
    readme: httpx.AsyncClient, project_id: str, token: str
) -> None:
    badge = await readme.get(
        f"{project_id}.svg",
        params={"token": token, "metric": "runs", "label": "<b>&", "style": "for-the-badge"},
    )

    root = ET.fromstring(badge.content)  # noqa: S314  # Our own output; parsing is the test.
    assert title(badge) == "<b>&: 2"
    assert root.attrib["height"] == "28"
    assert badge.headers["content-security-policy"].startswith("default-src 'none'")


async def test_it_may_be_kept_for_a_minute_and_is_confirmed_by_its_tag(
    readme: httpx.AsyncClient, project_id: str, token: str
) -> None:
    first = await readme.get(f"{project_id}.svg", params={"token": token})
    again = await readme.get(
        f"{project_id}.svg", params={"token": token}, headers={"If-None-Match": first.headers["etag"]}
    )

    assert first.headers["cache-control"] == "max-age=60"
    assert (again.status_code, again.content) == (304, b"")


async def test_a_cache_never_confuses_the_packed_image_with_the_plain_one(
    readme: httpx.AsyncClient, project_id: str, token: str
) -> None:
    ask = partial(readme.get, f"{project_id}.svg", params={"token": token, "label": "x" * 64})
    packed, plain = [await ask(headers={"Accept-Encoding": encoding}) for encoding in ("gzip", "identity")]

    assert (packed.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert packed.content == plain.content
    for answer in (packed, plain):
        assert answer.headers["vary"] == "Accept-Encoding"
        # A strong tag says that the bytes are the same.
        assert answer.headers["etag"].startswith("W/")

"""How to send runs: the ways with a key of their own, and the page that waits for the first run."""

import json
import re
import shlex
import tomllib
from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import verify
from runtally.access.scopes import Scope
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from tests.pages.conftest import Invite, Post
from tests.pages.looking import PARTIAL, Outline, html_of, part_of, text_of
from tests.serving import INGEST_KEY, settings_for
from tests.spans import as_json, make_request, make_span
from webapp.app import create_app
from webapp.snippets import SetupGuide, ways_to_send

ROOT = Path(__file__).parents[2]
SECRET = re.compile(r"rt_[\w-]{43}")
WAYS = ["curl", "Python", "TypeScript", "LiteLLM", "Langfuse", "OpenTelemetry", "Coding agents"]


@pytest.fixture
async def admin(invite: Invite) -> Browser:
    browser, _ = await invite(Role.ADMIN)
    return browser


async def created(browser: Browser, project_id: str) -> tuple[str, str]:
    """The page that shows a new key, and the key."""
    response = await browser.post(f"/projects/{project_id}/send", form={"name": "production"})
    html = await response.get_data(as_text=True)
    assert response.status_code == 200, html
    assert response.headers["Cache-Control"] == "no-store"
    [secret] = set(SECRET.findall(html))
    return html, secret


async def test_a_new_key_is_in_each_way_to_send_and_shown_once(
    admin: Browser, database: Database, project_id: str
) -> None:
    url = f"/projects/{project_id}/send"
    before = await html_of(admin, url)

    html, secret = await created(admin, project_id)

    tabs = [link["href"] for link in Outline(html).all("a") if (link["href"] or "").startswith("#")][1:]
    assert [text for text in WAYS if text not in text_of(html)] == []
    assert [Outline(html).by_id((tab or "")[1:])["class"] for tab in tabs] == ["card section way"] * len(WAYS)
    assert "YOUR_KEY" not in html
    assert "YOUR_KEY" in before
    assert SECRET.search(await html_of(admin, url)) is None
    async with database.connection() as connection:
        actor = await verify(connection, system_clock(), secret)
    assert actor.project_id == project_id
    assert actor.scopes == {Scope.RUNS_WRITE}


async def test_the_page_waits_for_the_run_that_the_command_sends(
    admin: Browser, closed_app: Quart, project_id: str
) -> None:
    html, _ = await created(admin, project_id)
    waiting = Outline(html).by_id("arrival")
    url = waiting["hx-get"] or ""
    assert waiting["hx-trigger"] == "every 3s"
    before = await admin.get(url, headers=PARTIAL)

    await _paste(closed_app, text_of(html))
    after = await part_of(admin, url)

    assert before.status_code == 204
    assert "First run received" in text_of(after)
    assert "hx-trigger" not in after
    assert (await admin.get(url)).headers["Location"] == f"/projects/{project_id}/send"
    assert "First run received" in text_of(await html_of(admin, f"/projects/{project_id}/send"))


async def test_a_project_that_has_runs_waits_for_the_first_one_with_the_new_key(
    admin: Browser, closed_app: Quart, post: Post, project_id: str
) -> None:
    await post()

    html, _ = await created(admin, project_id)
    url = Outline(html).by_id("arrival")["hx-get"] or ""
    before = await admin.get(url, headers=PARTIAL)
    await _paste(closed_app, text_of(html))

    assert "Waiting for the first run with this key." in text_of(html)
    assert before.status_code == 204
    assert "First run received" in text_of(await part_of(admin, url))


async def test_an_admin_chooses_a_project_that_is_not_there_yet(admin: Browser) -> None:
    example = await admin.get("/send")
    chosen = await admin.get("/send?project=search%2Fprod")

    assert example.headers["Location"] == "/projects/my-project/send"
    assert chosen.headers["Location"] == "/projects/search/prod/send"
    assert 'value="search/prod"' in await html_of(admin, "/projects/search/prod/send")


async def test_a_first_key_is_for_the_project_that_the_form_names(
    admin: Browser, database: Database, project_id: str
) -> None:
    form = Outline(await html_of(admin, f"/projects/{project_id}/send")).by_id("send-project")

    response = await admin.post("/send", form={"project": f" {project_id} ", "name": "production"})
    refused = await admin.post("/send", form={"project": " ", "name": "production"})

    assert form["value"] == project_id
    [secret] = set(SECRET.findall(await response.get_data(as_text=True)))
    async with database.connection() as connection:
        assert (await verify(connection, system_clock(), secret)).project_id == project_id
    assert refused.status_code == 422
    assert Outline(await refused.get_data(as_text=True)).by_id("send-project")["aria-invalid"] == "true"


async def test_a_member_finds_the_page_in_the_settings_and_a_name_that_is_too_long_is_refused(
    invite: Invite, post: Post, project_id: str
) -> None:
    await post()
    member, _ = await invite(Role.MEMBER, project_id)
    url = f"/projects/{project_id}/send"

    refused = await member.post(url, form={"name": "x" * 81})

    assert f'href="{url}"' in await html_of(member, f"/projects/{project_id}/settings")
    assert refused.status_code == 422
    assert Outline(await refused.get_data(as_text=True)).by_id("send-name")["aria-invalid"] == "true"


async def test_the_settings_of_opentelemetry_lead_to_the_receiver(
    admin: Browser, closed_app: Quart, database: Database, project_id: str
) -> None:
    _, secret = await created(admin, project_id)

    for way, variables in (
        ("opentelemetry", ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "/v1/traces")),
        ("litellm", ("OTEL_ENDPOINT", "OTEL_HEADERS", "")),
    ):
        environment = _environment(_way(secret, project_id, way))
        endpoint, headers, below = variables
        await _export(closed_app, environment[endpoint] + below, environment[headers], way)

    assert await _runs_of(database, project_id) == 2


async def test_the_settings_of_the_collector_have_the_exporter_of_the_guide(project_id: str) -> None:
    way = _way("rt_key", project_id, "opentelemetry")
    (text,) = (one.text for one in way.snippets if one.id == "opentelemetry-collector")

    ((exporter, settings),) = yaml.safe_load(text)["exporters"].items()

    assert settings == {"endpoint": "http://localhost", "headers": {"Authorization": "Bearer rt_key"}}
    guide = (ROOT / "docs" / "opentelemetry.md").read_text()
    assert f"  {exporter}: # Before version 0.144: otlphttp/runtally\n" in guide


async def test_the_settings_of_agents_are_files_that_name_the_receiver_and_the_key(project_id: str) -> None:
    texts = {one.id: one.text for one in _way("rt_key", project_id, "agents").snippets}

    claude_code = json.loads(texts["claude-code"])["env"]
    codex = tomllib.loads(texts["codex"])["otel"]["exporter"]["otlp-http"]
    gemini = json.loads(texts["gemini"])["telemetry"]

    assert claude_code["OTEL_EXPORTER_OTLP_ENDPOINT"] == gemini["otlpEndpoint"] == "http://localhost"
    assert claude_code["OTEL_EXPORTER_OTLP_HEADERS"] == "Authorization=Bearer rt_key"
    assert codex["endpoint"] == "http://localhost/v1/logs"
    assert codex["headers"] == {"Authorization": "Bearer rt_key"}
    assert shlex.split(texts["agents-environment"])[1::2] == [
        "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer rt_key",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost",
    ]
    assert json.loads(texts["opencode"]) == {"experimental": {"openTelemetry": True}}


async def test_the_settings_of_langfuse_lead_to_the_receiver(
    admin: Browser, closed_app: Quart, database: Database, project_id: str
) -> None:
    _, secret = await created(admin, project_id)

    environment = _environment(_way(secret, project_id, "langfuse"))
    pair = f"{environment['LANGFUSE_PUBLIC_KEY']}:{environment['LANGFUSE_SECRET_KEY']}"
    url = f"{environment['LANGFUSE_BASE_URL']}/api/public/otel/v1/traces"
    await _export(closed_app, url, f"Authorization=Basic%20{b64encode(pair.encode()).decode()}", "langfuse")

    assert environment["LANGFUSE_HOST"] == environment["LANGFUSE_BASE_URL"]
    assert await _runs_of(database, project_id) == 1


async def test_with_the_shared_key_alone_no_key_is_made_and_traces_name_the_project(
    database_url: str, database: Database, post: Post, project_id: str
) -> None:
    await post()
    odd = f"{project_id}/odd name"
    settings = settings_for(database_url, service_dev_mode=True, ingest_project_keys=False)
    async with create_app(settings).test_app() as running:
        reader = running.test_client()
        shown = text_of(await html_of(reader, f"/projects/{project_id}/send"))
        refused = await reader.post(f"/projects/{project_id}/send", form={"name": "production"})
        way = next(
            one for one in ways_to_send("http://localhost", INGEST_KEY, odd, names_project=True) if "Open" in one.name
        )
        environment = _environment(way)
        url = f"{environment['OTEL_EXPORTER_OTLP_ENDPOINT']}/v1/traces"
        await _export(running.app, url, environment["OTEL_EXPORTER_OTLP_HEADERS"], "shared")  # type: ignore[attr-defined]  # Quart's TestApp holds it.

    assert "This server accepts runs only with its shared key" in shown
    assert "Create key" not in shown
    assert refused.status_code == 404
    assert await _runs_of(database, odd) == 1


async def _paste(app: Quart, text: str) -> None:
    """Send what curl would."""
    found = re.search(r"curl http://localhost(\S+) .*?'Authorization: (.*?)'.*?-d '(.*?)'", text)
    assert found
    path, authorization, body = found.groups()
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    response = await app.test_client().post(path, data=body, headers=headers)
    assert response.status_code == 200


def _way(key: str, project_id: str, id_: str) -> SetupGuide:
    return next(way for way in ways_to_send("http://localhost", key, project_id, names_project=False) if way.id == id_)


def _environment(way: SetupGuide) -> dict[str, str]:
    """The variables of a shell that ran the first snippet."""
    words = [word for word in shlex.split(way.snippets[0].text) if word != "export"]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


async def _export(app: Quart, url: str, headers: str, span: str) -> None:
    """Send a span as an exporter with these variables does."""
    name, _, value = headers.partition("=")
    sent = {name: unquote(value), "Content-Type": "application/json"}
    body = as_json(make_request(make_span(spanId=span.encode().hex()[:16].rjust(16, "0"))))
    response = await app.test_client().post(urlsplit(url).path, data=body, headers=sent)
    assert response.status_code == 200, await response.get_data(as_text=True)


async def _runs_of(database: Database, project_id: str) -> int:
    async with database.connection() as connection:
        number: int = await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id)
    return number

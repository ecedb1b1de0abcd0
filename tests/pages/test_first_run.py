"""Before the first run: how to send one, and what happens when it arrives."""

import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from quart import Quart

from runtally.access import invitations
from runtally.access.scopes import Grant
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.user import Role
from runtally.settings import Settings
from tests.pages.conftest import PASSWORD
from tests.pages.looking import PARTIAL, Outline, html_of, part_of, text_of
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app
from webapp.snippets import first_run_command


@pytest.fixture
async def empty_app(empty_database_url: str) -> AsyncIterator[Quart]:
    """Freshly installed."""
    settings: Settings = settings_for(empty_database_url, service_dev_mode=True)
    async with create_app(settings).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


async def test_an_empty_install_tells_how_to_send_the_first_run(empty_app: Quart) -> None:
    text = text_of(await html_of(empty_app.test_client(), "/"))

    assert "No runs yet." in text
    assert "curl http://localhost/api/ingest" in text
    assert f"Authorization: Bearer {INGEST_KEY}" in text
    assert "export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost" in text
    assert f"export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20{INGEST_KEY}" in text
    assert "This page updates when the first run arrives." in text


async def test_the_page_waits_until_there_is_a_run_and_then_becomes_the_overview(empty_app: Quart) -> None:
    reader = empty_app.test_client()
    waiting = Outline(await html_of(reader, "/")).by_id("first-run")
    url = waiting["hx-get"] or ""
    assert waiting["hx-trigger"] == "every 3s"
    before = await reader.get(url, headers=PARTIAL)

    await _send(empty_app, first_run_command("http://localhost", INGEST_KEY, "my-project"))
    after = await part_of(reader, url)

    assert before.status_code == 204
    assert 'id="overview"' in after
    assert 'href="/projects/my-project"' in after
    assert "every 3s" not in after
    assert "Runs 1" in text_of(await html_of(reader, "/"))


async def test_what_is_pasted_survives_the_shell() -> None:
    awkward = """it's "all" $HOME `id` \\ %s"""

    command = first_run_command("http://127.0.0.1:8000", "key'with$quotes", awkward)

    words = _words(command)
    assert words[:2] == ["curl", "http://127.0.0.1:8000/api/ingest"]
    assert words[3] == "Authorization: Bearer key'with$quotes"
    assert json.loads(words[-1])["projectId"] == awkward


async def test_outside_dev_mode_the_key_stays_where_it_is() -> None:
    command = first_run_command("https://runs.example", None, "my-project")

    assert '-H "Authorization: Bearer $INGEST_API_KEY"' in command


async def test_an_admin_with_an_account_is_led_to_a_key_and_told_where_the_shared_one_is(
    empty_database_url: str, tmp_path: Path
) -> None:
    settings = settings_for(empty_database_url, service_dev_mode=False, data_dir=tmp_path)
    async with Database(empty_database_url) as database, database.session() as session:
        admin = Grant(Role.ADMIN, None)
        token = await invitations.invite(session, session, system_clock(), OPERATOR, "ada@runs.example", admin)
    async with create_app(settings).test_app() as running:
        reader = running.app.test_client()  # type: ignore[attr-defined]  # As above.
        form = {"token": token, "name": "Ada", "password": PASSWORD, "again": PASSWORD}
        assert (await reader.post("/join", form=form)).status_code == 303
        html = await html_of(reader, "/")

    assert INGEST_KEY not in html
    assert str(tmp_path / "secrets.json") in html
    assert Outline(html).by_id("send-project")["value"] == "my-project"
    assert "/send" in [form.get("action") for form in Outline(html).all("form")]


async def _send(app: Quart, command: str) -> None:
    """What curl would send."""
    _, url, *options, body = _words(command)
    headers = dict(option.split(": ") for option in options if ": " in option)
    response = await app.test_client().post(urlsplit(url).path, data=body, headers=headers)
    assert response.status_code == 200


def _words(command: str) -> list[str]:
    """What a shell makes of it."""
    return shlex.split(command.replace("\\\n", ""))

"""The pages about the installation: users, audit log, relay, health."""

import csv
import re
from datetime import timedelta

import msgspec
import pytest
from quart import Quart

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.models.otlp import Client
from runtally.models.user import Role
from runtally.otlp.clients import upsert_clients
from runtally.reporting.outbox_queries import COUNTED
from tests.factories import make_run
from tests.pages.conftest import PASSWORD, Invite, Post
from tests.pages.looking import html_of, text_of
from tests.serving import settings_for
from webapp.app import create_app


async def id_of(database: Database, email: str) -> str:
    async with database.connection() as connection:
        return str(await connection.fetchval("SELECT id FROM users WHERE email = $1", email))


async def test_an_admin_invites_somebody_who_then_joins(
    invite: Invite, post: Post, project_id: str, closed_app: Quart
) -> None:
    await post()
    admin, _ = await invite(Role.ADMIN)
    email = f"{project_id}@example.com"
    form = {"email": email.upper(), "role": "viewer", "project": project_id}

    made = await admin.post("/admin/users/invite", form=form)

    html = await made.get_data(as_text=True)
    assert made.status_code == 200
    [link] = re.findall(r"http://localhost(/join\?token=[\w-]+)", html)
    assert email in text_of(html)
    assert link not in await html_of(admin, "/admin/users")
    newcomer = closed_app.test_client()
    assert f"You were invited as {email}." in text_of(await html_of(newcomer, link))
    sent = {"token": link.partition("=")[2], "name": "Bob", "password": PASSWORD, "again": PASSWORD}
    assert (await newcomer.post("/join", form=sent)).status_code == 303
    assert project_id in await html_of(newcomer, f"/projects/{project_id}")
    assert f"viewer of {project_id}" in text_of(await html_of(admin, "/admin/users"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"email": "nobody"}, "invite-email"),
        ({"role": "owner"}, "invite-role"),
        ({"role": "admin"}, "invite-project"),
        ({"project": ""}, "invite-project"),
        ({"project": "no-such"}, "invite-project"),
    ],
)
async def test_a_wrong_invitation_is_refused_at_its_field(
    invite: Invite, post: Post, project_id: str, change: dict[str, str], field: str
) -> None:
    await post()
    admin, _ = await invite(Role.ADMIN)
    form = {"email": f"{project_id}@example.com", "role": "viewer", "project": project_id} | change

    refused = await admin.post("/admin/users/invite", form=form)

    assert refused.status_code == 422
    assert f'id="{field}-error"' in await refused.get_data(as_text=True)


async def test_a_changed_role_holds_at_once_and_signs_out(
    invite: Invite, database: Database, post: Post, project_id: str
) -> None:
    await post()
    admin, _ = await invite(Role.ADMIN)
    viewer, email = await invite(Role.VIEWER, project_id)
    user = f"/admin/users/{await id_of(database, email)}"
    assert (await viewer.get(f"/projects/{project_id}/settings")).status_code == 403

    unknown = await admin.post(f"{user}/role", form={"role": "member", "project": "no-such"})
    assert unknown.status_code == 422
    assert "There is no such project." in await unknown.get_data(as_text=True)

    changed = await admin.post(f"{user}/role", form={"role": "member", "project": project_id})

    assert changed.status_code == 303
    assert (await viewer.get("/account")).status_code == 303
    await viewer.post("/sign-in", form={"email": email, "password": PASSWORD})
    assert (await viewer.get(f"/projects/{project_id}/settings")).status_code == 200
    await admin.post(f"{user}/role/remove", form={"project": project_id})
    await viewer.post("/sign-in", form={"email": email, "password": PASSWORD})
    assert (await viewer.get(f"/projects/{project_id}")).status_code == 404


async def test_who_is_turned_away_is_out_at_once_until_let_in_again(invite: Invite, database: Database) -> None:
    admin, _ = await invite(Role.ADMIN)
    other, email = await invite(Role.ADMIN)
    user = f"/admin/users/{await id_of(database, email)}"

    await admin.post(f"{user}/disable")

    assert (await other.get("/account")).status_code == 303
    refused = await other.post("/sign-in", form={"email": email, "password": PASSWORD})
    assert refused.status_code == 422
    await admin.post(f"{user}/enable")
    assert (await other.post("/sign-in", form={"email": email, "password": PASSWORD})).status_code == 303


async def test_a_link_for_a_new_password_replaces_the_old_one(invite: Invite, database: Database) -> None:
    admin, _ = await invite(Role.ADMIN)
    other, email = await invite(Role.ADMIN)

    made = await admin.post(f"/admin/users/{await id_of(database, email)}/reset")

    [token] = re.findall(r"/join\?token=([\w-]+)", await made.get_data(as_text=True))
    form = {"token": token, "password": "quite another password", "again": "quite another password"}
    assert (await other.post("/join", form=form)).status_code == 303
    assert (await other.get("/account")).status_code == 200
    assert (await other.post("/sign-in", form={"email": email, "password": PASSWORD})).status_code == 422


async def test_the_log_tells_who_did_what_and_filters_by_project(invite: Invite, post: Post, project_id: str) -> None:
    await post()
    admin, email = await invite(Role.ADMIN)
    await admin.post(f"/projects/{project_id}/settings/name", form={"name": "New name"})
    await admin.post(f"/projects/{project_id}/settings/hide")
    await admin.post(f"/projects/{project_id}/settings/keys", form={"name": "grafana", "scopes": "metrics:read"})
    await admin.post(f"/projects/{project_id}/settings/links", form={"name": "board", "password": "a long password"})

    await admin.post(
        "/admin/prices/new",
        form={"provider": project_id, "model": "acme-1", "input_per_million": "2.50", "effective_from": "2026-12-01"},
    )

    everywhere = text_of(await html_of(admin, "/admin/audit"))
    text = text_of(await html_of(admin, f"/admin/audit?project={project_id}"))
    nothing = text_of(await html_of(admin, f"/admin/audit?project={project_id}&before=1"))
    nobody = text_of(await html_of(admin, "/admin/audit?who=nobody%00"))
    theirs = text_of(await html_of(admin, f"/admin/audit?who={email}"))

    saved = await admin.get(f"/admin/audit.csv?project={project_id}")
    rows = list(csv.DictReader((await saved.get_data(as_text=True)).splitlines()))
    assert f"/admin/audit.csv?project={project_id}" in await html_of(admin, f"/admin/audit?project={project_id}")
    assert saved.headers["Content-Disposition"] == "attachment; filename=audit.csv"
    assert [row["actor_label"] for row in rows] == [email] * 4
    assert [row["action"] for row in rows] == [
        "shared_link.created",
        "key.created",
        "project.hidden",
        "project.renamed",
    ]
    assert f"Price added {project_id} acme-1" in everywhere
    assert "in force from (UTC) 1 Dec 2026, 00:00:00 UTC input, USD per 1M tokens 2.5" in everywhere
    assert f"{email} Project hidden {project_id}" in text
    assert "name grafana permissions metrics:read" in text
    assert "name board password yes" in text
    assert f"name {project_id} →became New name" in text
    assert "user" not in text.partition("Show")[2].partition("Keyboard")[0].replace("users", "")
    assert "No matching changes." in nothing
    assert "No matching changes." in nobody
    assert f"{email} Price added {project_id} acme-1" in theirs
    assert f"{email} Project hidden {project_id}" in theirs
    assert "User invited" not in theirs


async def test_runs_that_fail_to_be_pushed_are_told_before_any_is_parked(
    invite: Invite, database: Database, project_id: str
) -> None:
    now = system_clock()
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, attempts, last_error) "
            "VALUES ($1, 'run-1', 1, $2, $3, 2, 'HTTP 422 of a receiver')",
            project_id,
            now,
            now + timedelta(days=365),
        )
    admin, _ = await invite(Role.ADMIN)

    text = text_of(await html_of(admin, "/admin/health"))

    assert re.search(r"\d of the waiting runs failed and will be retried", text)
    assert "Latest error: HTTP 422 of a receiver." in text
    async with database.connection() as connection:
        await connection.execute("DELETE FROM outbox WHERE project_id = $1", project_id)


async def test_of_a_long_queue_the_relay_page_says_that_it_is_long(
    invite: Invite, database: Database, project_id: str
) -> None:
    async with database.connection() as connection:
        # What other tests left there.
        await connection.execute("TRUNCATE outbox, outbox_arrivals")
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, attempts) "
            "SELECT $1, number::text, 1, $2, $2, 1 FROM generate_series(1, $3::int) AS number",
            project_id,
            system_clock() - timedelta(hours=2),
            COUNTED + 1,
        )
    admin, _ = await invite(Role.ADMIN)

    text = text_of(await html_of(admin, "/admin/health"))

    async with database.connection() as connection:
        await connection.execute("DELETE FROM outbox WHERE project_id = $1", project_id)
    assert "Waiting more than 10,000 Longest wait at least 2 h" in text
    assert "At least 10,000 of the waiting runs failed" in text
    assert re.search(r"more than 10,000 runs wait, the first since [-\d]+ [:\d]+ or longer;", text)


async def test_a_parked_run_is_shown_with_its_error_and_queued_again(
    invite: Invite, database: Database, project_id: str
) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at, attempts, parked_at, last_error) "
            "VALUES ($1, 'run-1', 1, $2, $2, 10, $2, '<b>422: no')",
            project_id,
            system_clock(),
        )
    admin, _ = await invite(Role.ADMIN)
    assert "&lt;b&gt;422: no" in await html_of(admin, "/admin/health")

    await admin.post("/admin/relay/retry", form={"project": project_id, "run": "run-1"})

    assert "1 run queued again." in await html_of(admin, "/admin/health")
    async with database.connection() as connection:
        row = await connection.fetchrow("DELETE FROM outbox WHERE project_id = $1 RETURNING *", project_id)
    assert row
    assert (row["parked_at"], row["attempts"]) == (None, 0)


async def test_health_shows_what_the_doctor_says_and_versions(invite: Invite) -> None:
    admin, _ = await invite(Role.ADMIN)

    text = text_of(await html_of(admin, "/admin/health"))

    assert re.search(r"Warning SERVICE_SYNC_SIGN", text)
    assert re.search(r"OK database Postgres \d+", text)
    assert "Quart 0." in text


async def test_a_command_on_the_relay_page_is_set_as_one(database_url: str) -> None:
    settings = settings_for(database_url, service_dev_mode=True, relay="off", service_sync_sign="a" * 32)

    async with create_app(settings).test_app() as running:
        html = await html_of(running.test_client(), "/admin/health")

    assert "(RELAY=off); <code>runtally relay</code> does." in html


async def test_what_came_by_opentelemetry_is_listed_by_client_for_admins_and_for_the_project(
    invite: Invite, post: Post, database: Database, project_id: str
) -> None:
    await post()
    now = system_clock()
    seen = Client(
        project_id,
        "search",
        "OTel-OTLP-Exporter-Python",
        "traces",
        now,
        now,
        requests=3,
        records=45,
        runs=3,
        no_calls=42,
    )
    unseen = Client(project_id, "<b>web</b>", "OTel-OTLP-Exporter-JavaScript", "logs", now, now, requests=1, no_calls=9)
    # These sent calls, so a hint that there were none would be wrong.
    others = [
        msgspec.structs.replace(unseen, service=name, no_calls=0, **{name: 1})
        for name in ("rejected", "told_elsewhere")
    ]
    async with database.connection() as connection:
        await upsert_clients(connection, [seen, unseen, *others])
    admin, _ = await invite(Role.ADMIN)

    for url in ("/admin/clients", f"/projects/{project_id}/send"):
        html = await html_of(admin, url)
        text = text_of(html)
        assert "search traces by OTel-OTLP-Exporter-Python" in text
        # The last two are when it sent first and last.
        assert "3 45 3 No calls of models: 42 just now just now" in re.sub(r"\d+ s ago", "just now", text)
        assert "logs by OTel-OTLP-Exporter-JavaScript No calls of models: 9 No model calls found." in text
        assert "&lt;b&gt;web" in html
    assert project_id in text_of(await html_of(admin, "/admin/clients"))
    # The page of administrators lists the clients of other projects too.
    of_project = text_of(await html_of(admin, f"/projects/{project_id}/send"))
    assert of_project.count("No model calls found.") == 1
    elsewhere = await html_of(admin, f"/projects/{project_id}-other/send")
    assert "OpenTelemetry clients" not in text_of(elsewhere)


async def test_an_instrumentation_that_leaves_something_out_is_named_with_what_to_do(
    invite: Invite, post: Post, database: Database, project_id: str
) -> None:
    now = system_clock()
    elsewhere = f"{project_id}-other"
    await post(make_run(metadata={"instrumentation": "@traceloop/instrumentation-anthropic"}), make_run())
    await post(make_run(metadata={"instrumentation": "opentelemetry.instrumentation.openai"}), to=elsewhere)
    await post(make_run(metadata={"agent": "continue-cli", "aggregated": True}), to=elsewhere)
    async with database.connection() as connection:
        await upsert_clients(
            connection, [Client(one, "s", "e", "traces", now, now, 1, 2, 2) for one in (project_id, elsewhere)]
        )
    admin, _ = await invite(Role.ADMIN)

    for url in ("/admin/clients", "/admin/health"):
        text = text_of(await html_of(admin, url))
        assert "@traceloop/instrumentation-anthropic sends no tokens of streams (as of version 0.27.0)" in text
        assert "leave it out, since Anthropic's SDK traces by itself from 0.137.0 on" in text
        assert f"{project_id}: @traceloop" in text
        assert f"{elsewhere}: continue-cli sends no cached tokens of OpenAI's models" in text
        assert "opentelemetry.instrumentation.openai" not in text

"""Erasing a person over HTTP and by command: counted first, then gone from everywhere, with a record that has no name."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.commands import Finished, run_beside
from tests.factories import make_run
from tests.serving import INGEST_KEY, Server, client_of, running_server
from tests.stored import until_merged

ANN = "Ann Example"
PATIENCE_SECONDS = 120.0


async def send(server: Server, project_id: str, user: str, *numbers: int) -> None:
    async with client_of(server.url, {"Authorization": f"Bearer {INGEST_KEY}"}) as client:
        for number in numbers:
            run = make_run(projectId=project_id, runId=f"{user}-{number}", userId=user)
            sent = await client.post("/api/ingest", json=run)
            assert sent.status_code == 200, sent.text


async def key_of(database: Database, *scopes: Scope) -> dict[str, str]:
    async with database.session() as session:
        secret = issue(session, system_clock(), OPERATOR, project_id=None, scopes=scopes).secret
    return {"authorization": f"Bearer {secret}"}


async def until(client: httpx.AsyncClient, erasure_id: int, state: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            one: dict[str, Any] = (await client.get(f"/api/erasures/{erasure_id}")).json()["erasure"]
            if one["state"] == state:
                return one
            await asyncio.sleep(0.1)


async def left_of(database: Database, name: str) -> list[str]:
    """The tables in which a name is anywhere."""
    async with database.connection() as connection:
        return [
            row[0]
            for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            if await connection.fetchval(
                f'SELECT EXISTS (SELECT FROM "{row[0]}" AS t WHERE t::text LIKE $1)', f"%{name}%"
            )
        ]


async def test_a_person_is_counted_then_erased_in_every_project_and_the_record_has_no_name(
    own: Database, empty_database_url: str
) -> None:
    with running_server(empty_database_url) as server:
        await send(server, "shop", ANN, 1, 2)
        await send(server, "chat", ANN, 3)
        await send(server, "chat", "Bo", 4)
        await until_merged(own)
        async with client_of(server.url, await key_of(own, Scope.ADMIN)) as client:
            planned = await client.post("/api/erasures", json={"user": ANN})
            erasure_id = planned.json()["erasure"]["id"]
            counted = await until(client, erasure_id, "counted")
            kept = await left_of(own, ANN)
            started = await client.post(f"/api/erasures/{erasure_id}/start")
            done = await until(client, erasure_id, "done")
            twice = await client.post(f"/api/erasures/{erasure_id}/start")
            unknown = await client.get("/api/erasures/999999")

    assert (planned.status_code, started.status_code) == (201, 200)
    both = {("chat", 1), ("shop", 2)}
    assert {(one["projectId"], one["live"]) for one in counted["found"]} == both
    assert {"runs", "erasures"} <= set(kept)
    assert {(one["projectId"], one["live"]) for one in done["found"]} == both
    assert await left_of(own, ANN) == []
    async with own.connection() as connection:
        runs = await connection.fetch("SELECT project_id, user_id FROM runs")
        entries = await connection.fetch(
            "SELECT project_id, target, before FROM audit_entries WHERE action = 'person.erased'"
        )
        sums = await connection.fetch(
            "SELECT project_id, runs FROM rollup_totals WHERE grain = 1440 AND project_id <> ''"
        )
    assert [tuple(row) for row in runs] == [("chat", "Bo")]
    assert {row["project_id"]: row["before"]["runs"] for row in entries} == {"chat": 1, "shop": 2}
    assert {row["target"] for row in entries} == {done["label"]}
    assert done["label"].startswith(("user ", "erasure "))
    assert {row[0]: row[1] for row in sums if row[1]}.get("chat") == 1
    assert_error(twice, 422, "invalid_erasure")
    assert_error(unknown, 404, "not_found")


@pytest.mark.parametrize(
    ("body", "code", "paths"),
    [
        ({"user": "  "}, "invalid_erasure", ["user"]),
        ({}, "invalid_payload", ["user"]),
        ({"user": 5}, "invalid_payload", ["user"]),
    ],
)
async def test_an_erasure_without_a_name_is_refused(
    client: httpx.AsyncClient, admin_key: str, body: dict[str, Any], code: str, paths: list[str]
) -> None:
    refused = await client.post("/api/erasures", json=body, headers={"Authorization": f"Bearer {admin_key}"})

    assert_error(refused, 422, code, paths=paths)


async def test_only_an_admin_erases(client: httpx.AsyncClient) -> None:
    refused = await client.post("/api/erasures", json={"user": ANN}, headers={"Authorization": f"Bearer {INGEST_KEY}"})

    assert refused.status_code in {401, 403}


async def test_the_command_shows_what_it_would_erase_and_erases_it(
    own: Database, empty_database_url: str, tmp_path: Path
) -> None:
    with running_server(empty_database_url) as server:
        await send(server, "shop", ANN, 1, 2)
        await send(server, "shop", "Bo", 3)

    async def erase(*options: str) -> Finished:
        environment = {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path)}
        return await run_beside("runs", "erase", "--user", ANN, *options, environment=environment)

    looked, erased, again = await erase("--dry-run"), await erase("--yes"), await erase("--yes")

    assert looked.out.splitlines()[1:] == ["shop        2         0         0", "Nothing was deleted."]
    assert erased.out.splitlines()[-1].startswith("Deleted 2 runs of user")
    assert (again.code, again.out) == (1, "No project has runs of this user; nothing was deleted.\n")
    await until_merged(own)
    assert await left_of(own, ANN) == []

"""Keys, sentence by sentence: issued on the command line, shown once, scoped, expiring, rotated, revoked."""

import hmac
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from quart import Quart

from runtally.access.keys import issue, revoke
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.commands import run
from tests.factories import make_run
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app
from webapp.cli import main

CommandLine = Callable[..., str]


@pytest.fixture
def runtally(database_url: str, database: Database) -> CommandLine:
    """The command line as a process of its own; answers what it printed."""

    def printed(*arguments: str) -> str:
        finished = run(*arguments, environment={"DATABASE_URL": database_url})
        assert finished.code == 0, finished.err
        return finished.out.strip()

    return printed


@pytest.fixture
async def key_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    """The application where project keys may ingest."""
    app = create_app(settings_for(database_url, ingest_project_keys=True))
    async with app.test_app():
        yield app


async def secret(database: Database, project_id: str | None, *scopes: Scope, **options: Any) -> str:  # noqa: ANN401  # Those of `issue`.
    async with database.session() as session:
        return issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=scopes, **options).secret


async def metrics(client: httpx.AsyncClient, key: str, **query: str) -> httpx.Response:
    return await client.get("/api/metrics", params=query, headers={"Authorization": f"Bearer {key}"})


async def ingest(app: Quart, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    response = await app.test_client().post("/api/ingest", json=body, headers={"Authorization": f"Bearer {key}"})
    return response.status_code, await response.get_json()


async def projects_of(database: Database, *run_ids: str) -> list[str]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT project_id FROM runs WHERE id = ANY($1) ORDER BY id", list(run_ids))
    return [row["project_id"] for row in rows]


async def test_a_created_key_is_printed_alone_for_scripts_and_works(
    runtally: CommandLine, stranger: httpx.AsyncClient, project_id: str
) -> None:
    key = runtally("keys", "create", "--project", project_id, "--scope", "metrics:read", "--quiet")

    assert key.startswith("rt_")
    assert len(key.split()) == 1
    assert (await metrics(stranger, key)).status_code == 200


def test_a_key_is_shown_once_and_listed_by_its_prefix(runtally: CommandLine, project_id: str) -> None:
    created = runtally(
        "keys", "create", "--project", project_id, "--scope", "metrics:read,runs:read", "--expires", "90d"
    )
    key = next(word for word in created.split() if word.startswith("rt_"))

    listed = runtally("keys", "list", "--project", project_id)

    [line] = [line for line in listed.splitlines() if line.startswith(key[:11])]
    assert key not in listed
    assert project_id in line
    assert "metrics:read,runs:read" in line
    assert "active until" in line
    assert "never used" in line


async def test_a_rotated_key_works_until_its_overlap_is_over(
    runtally: CommandLine, stranger: httpx.AsyncClient, project_id: str
) -> None:
    first = runtally("keys", "create", "--project", project_id, "--scope", "metrics:read", "--quiet")

    second = runtally("keys", "rotate", first[:11], "--overlap", "1h", "--quiet")
    third = runtally("keys", "rotate", second[:11], "--overlap", "0m", "--quiet")

    assert [(await metrics(stranger, key)).status_code for key in (first, second, third)] == [200, 401, 200]


async def test_a_revoked_key_is_refused_at_once(
    runtally: CommandLine, stranger: httpx.AsyncClient, project_id: str
) -> None:
    key = runtally("keys", "create", "--project", project_id, "--scope", "metrics:read", "--quiet")
    before = await metrics(stranger, key)

    runtally("keys", "revoke", key[:11])

    assert before.status_code == 200
    assert_error(await metrics(stranger, key), 401, "invalid_key", never=[key])


async def test_an_admin_key_is_created_without_a_project(runtally: CommandLine, stranger: httpx.AsyncClient) -> None:
    key = runtally("keys", "create", "--scope", "admin", "--quiet")

    assert (await metrics(stranger, key, aggregate="1")).status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        ("--project", "", "--scope", "metrics:read"),
        ("--project", " ", "--scope", "admin"),
        ("--scope", "metrics:read"),
        ("--project", "shop", "--scope", "admin"),
        ("--project", "shop", "--scope", "everything"),
        ("--project", "shop", "--scope", "metrics:read", "--expires", "0d"),
    ],
    ids=["empty project", "blank project", "no project", "admin of a project", "unknown scope", "no time"],
)
def test_a_key_that_would_open_more_than_was_said_is_wrong_usage(database_url: str, options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["keys", "create", *options], env={"DATABASE_URL": database_url})

    assert result.exit_code == 2
    assert "rt_" not in result.output


async def test_the_last_use_is_recorded(
    runtally: CommandLine, stranger: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    await metrics(stranger, metrics_key)

    [line] = [
        line for line in runtally("keys", "list", "--project", project_id).splitlines() if metrics_key[:11] in line
    ]
    assert f"used {system_clock():%Y-%m-%d}" in line


async def test_metrics_need_the_scope_for_them_and_no_other_will_do(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    others = await secret(database, project_id, Scope.RUNS_READ, Scope.RUNS_WRITE)
    both = await secret(database, project_id, Scope.RUNS_READ, Scope.METRICS_READ)

    assert_error(await metrics(stranger, others), 403, "forbidden")
    assert (await metrics(stranger, both)).status_code == 200


async def test_a_project_beside_a_project_key_must_be_the_keys(
    stranger: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    assert (await metrics(stranger, metrics_key, projectId=project_id)).status_code == 200
    assert_error(await metrics(stranger, metrics_key, projectId=f"{project_id}-other"), 403, "forbidden")


@pytest.mark.parametrize("aggregate", ["1", "true"])
async def test_aggregate_needs_an_admin_key(
    stranger: httpx.AsyncClient, metrics_key: str, admin_key: str, aggregate: str
) -> None:
    assert_error(await metrics(stranger, metrics_key, aggregate=aggregate), 403, "forbidden")
    assert (await metrics(stranger, admin_key, aggregate=aggregate)).status_code == 200


async def test_an_admin_key_opens_every_project_and_has_to_say_which(
    stranger: httpx.AsyncClient, project_id: str, admin_key: str
) -> None:
    assert (await metrics(stranger, admin_key, projectId=project_id)).status_code == 200
    assert_error(await metrics(stranger, admin_key), 400, "project_not_inferred")


async def test_the_shared_ingest_key_reads_nothing(stranger: httpx.AsyncClient, project_id: str) -> None:
    assert_error(await metrics(stranger, INGEST_KEY, projectId=project_id), 401, "invalid_key")


async def test_a_refusal_never_tells_whether_there_is_such_a_key(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    async with database.session() as session:
        revoked = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.METRICS_READ])
        revoke(session, system_clock(), OPERATOR, revoked.row)
    expired = await secret(database, project_id, Scope.METRICS_READ, lifetime=timedelta(microseconds=1))

    responses = [await metrics(stranger, key) for key in (revoked.secret, expired, "rt_unknown", "nonsense")]

    for response in responses:
        assert_error(response, 401, "invalid_key")
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert len({response.text for response in responses}) == 1


async def test_without_the_setting_a_project_key_does_not_ingest(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    key = await secret(database, project_id, Scope.RUNS_WRITE)

    response = await stranger.post(
        "/api/ingest", json=make_run(projectId=project_id), headers={"Authorization": f"Bearer {key}"}
    )

    assert_error(response, 401, "invalid_key", never=[key])


async def test_with_it_the_project_comes_from_the_key(key_app: Quart, database: Database, project_id: str) -> None:
    key = await secret(database, project_id, Scope.RUNS_WRITE)
    ids = [f"{project_id}-{number}" for number in range(5)]

    answers = [
        await ingest(key_app, key, body)
        for body in (
            make_run(runId=ids[0]),
            make_run(runId=ids[1], projectId=project_id),
            make_run(runId=ids[2]) | {"projectId": None},
            make_run(runId=ids[3], projectId=" "),
            {"runs": [make_run(runId=ids[4])]},
        )
    ]

    assert [status for status, _ in answers] == [200] * 5
    assert await projects_of(database, *ids) == [project_id] * 5


@pytest.mark.parametrize("batch", [False, True])
async def test_a_differing_project_is_forbidden_and_nothing_is_stored(
    key_app: Quart, database: Database, project_id: str, batch: bool
) -> None:
    key = await secret(database, project_id, Scope.RUNS_WRITE)
    run = make_run(runId=f"{project_id}-run")
    body = {"projectId": f"{project_id}-other"} | ({"runs": [run]} if batch else run)

    status, answer = await ingest(key_app, key, body)

    assert (status, answer["error"]["code"]) == (403, "forbidden")
    assert await projects_of(database, run["runId"]) == []


async def test_ingest_needs_the_scope_for_it(key_app: Quart, project_id: str, metrics_key: str) -> None:
    status, answer = await ingest(key_app, metrics_key, make_run(projectId=project_id))

    assert (status, answer["error"]["code"]) == (403, "forbidden")


async def test_an_admin_key_and_the_shared_key_ingest_for_the_project_that_the_body_names(
    key_app: Quart, database: Database, project_id: str, admin_key: str
) -> None:

    for number, key in enumerate((admin_key, INGEST_KEY)):
        status, _ = await ingest(key_app, key, make_run(projectId=project_id, runId=f"{project_id}-{number}"))
        missing, answer = await ingest(key_app, key, make_run())

        assert (status, missing, answer["error"]["code"]) == (200, 400, "missing_project_id")
    assert await projects_of(database, f"{project_id}-0", f"{project_id}-1") == [project_id] * 2


async def test_a_project_key_is_taken_from_x_api_key_too(key_app: Quart, database: Database, project_id: str) -> None:
    key = await secret(database, project_id, Scope.RUNS_WRITE)

    response = await key_app.test_client().post("/api/ingest", json=make_run(), headers={"x-api-key": key})

    assert response.status_code == 200


async def test_project_keys_ingest_where_no_shared_key_is_configured(
    database_url: str, database: Database, project_id: str
) -> None:
    key = await secret(database, project_id, Scope.RUNS_WRITE)
    app = create_app(settings_for(database_url, ingest_project_keys=True, ingest_api_key=""))
    async with app.test_app():
        by_key, _ = await ingest(app, key, make_run())
        by_shared, _ = await ingest(app, INGEST_KEY, make_run(projectId=project_id))

    assert (by_key, by_shared) == (200, 401)


@pytest.mark.parametrize(
    ("sent", "expected"), [("first-key", 200), ("second-key", 200), ("third-key", 200), ("wrong-key", 401), ("x", 401)]
)
async def test_every_shared_key_is_compared_in_constant_time_whichever_matches(
    database_url: str, project_id: str, monkeypatch: pytest.MonkeyPatch, sent: str, expected: int
) -> None:
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare(one, other)

    app = create_app(settings_for(database_url, ingest_api_key="first-key,second-key,third-key"))
    async with app.test_app():
        monkeypatch.setattr(hmac, "compare_digest", compare_digest)
        status, _ = await ingest(app, sent, make_run(projectId=project_id))

    assert status == expected
    assert compared == [b"first-key", b"second-key", b"third-key"]

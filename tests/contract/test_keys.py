"""Keys, sentence by sentence: issued on the command line, shown once, scoped, expiring, rotated, revoked."""

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from click.testing import CliRunner

from runtally.access.keys import issue, revoke
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from tests.assertions import assert_error
from tests.commands import run
from tests.factories import make_key
from tests.serving import INGEST_KEY
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


async def metrics(client: httpx.AsyncClient, key: str, **query: str) -> httpx.Response:
    return await client.get("/api/metrics", params=query, headers={"Authorization": f"Bearer {key}"})


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


def test_scopes_come_with_commas_or_by_several_options(runtally: CommandLine, project_id: str) -> None:
    runtally("keys", "create", "--project", project_id, "--scope", "metrics:read", "--scope", "runs:read")

    assert "metrics:read,runs:read" in runtally("keys", "list", "--project", project_id)


def test_a_key_is_listed_with_its_name(runtally: CommandLine, project_id: str) -> None:
    created = runtally("keys", "create", "--project", project_id, "--scope", "runs:write", "--name", "search-service")

    assert "Name     search-service" in created
    assert "search-service" in runtally("keys", "list", "--project", project_id)


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


async def test_keys_are_listed_for_a_project_that_exists_or_has_a_key(
    runtally: CommandLine, database_url: str, project_id: str
) -> None:
    runtally("keys", "create", "--scope", "admin")
    unknown = f"not-yet-{project_id}"
    of_none = run("keys", "list", "--project", unknown, environment={"DATABASE_URL": database_url})
    runtally("keys", "create", "--project", unknown, "--scope", "metrics:read")

    assert of_none.code == 1
    assert "There is no such project" in of_none.err
    assert unknown in runtally("keys", "list", "--project", unknown)


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
def test_options_that_would_widen_a_key_are_wrong_usage(database_url: str, options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["keys", "create", *options], env={"DATABASE_URL": database_url})

    assert result.exit_code == 2
    assert "rt_" not in result.output


async def test_the_last_use_is_recorded(
    runtally: CommandLine, stranger: httpx.AsyncClient, project_id: str, metrics_key: str
) -> None:
    before = system_clock()
    await metrics(stranger, metrics_key)
    after = system_clock()

    [line] = [
        line for line in runtally("keys", "list", "--project", project_id).splitlines() if metrics_key[:11] in line
    ]
    # A day may end meanwhile.
    assert any(f"used {at:%Y-%m-%d}" in line for at in (before, after))


async def test_metrics_need_the_scope_for_them_and_no_other_will_do(
    stranger: httpx.AsyncClient, database: Database, project_id: str
) -> None:
    others = await make_key(database, project_id, Scope.RUNS_READ, Scope.RUNS_WRITE)
    both = await make_key(database, project_id, Scope.RUNS_READ, Scope.METRICS_READ)

    assert_error(await metrics(stranger, others), 403, "forbidden")
    assert (await metrics(stranger, both)).status_code == 200


async def test_a_request_with_a_project_key_may_only_name_its_project(
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
    expired = await make_key(database, project_id, Scope.METRICS_READ, lifetime=timedelta(microseconds=1))

    responses = [await metrics(stranger, key) for key in (revoked.secret, expired, "rt_unknown", "nonsense")]

    for response in responses:
        assert_error(response, 401, "invalid_key")
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert len({response.text for response in responses}) == 1

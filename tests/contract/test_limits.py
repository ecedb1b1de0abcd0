"""Rate limits over HTTP, sentence by sentence: ingest by project, wrong keys by address, over two server processes."""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.limits.limiter import LimitStore
from runtally.settings import Settings
from tests.assertions import assert_error
from tests.factories import make_run
from tests.limits import create_without_time
from tests.serving import INGEST_KEY, Postgres, Server, client_of, running_server, settings_for
from webapp.app import create_app

PER_PROJECT = 5
# What a worker knows without the store it knows until the next slot, by its own clock: few slots, so that they are far apart.
PER_ADDRESS = 2
RIGHT = {"Authorization": f"Bearer {INGEST_KEY}"}
WRONG = {"Authorization": "Bearer wrong-key"}


@pytest.fixture(scope="module")
def database_url(postgres: Postgres) -> str:
    return create_without_time(postgres, "limited")


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url) as database:
        yield database


@pytest.fixture(scope="module")
def limited_server(database: Database, database_url: str) -> Iterator[Server]:
    with running_server(
        database_url,
        workers=2,
        SVC_RATE_LIMIT_PER_MINUTE=str(PER_PROJECT),
        WRONG_KEY_LIMIT_PER_MINUTE=str(PER_ADDRESS),
    ) as server:
        yield server


@pytest.fixture
async def limited(limited_server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """One connection, and so one of the workers."""
    async with client_of(limited_server.url) as client:
        yield client


@pytest.fixture
def address(project_id: str) -> str:
    """An address of the test's own, as a proxy on this machine would report it."""
    number = int(project_id[-6:], 16)
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


async def post(client: httpx.AsyncClient, project_id: str, **headers: str) -> httpx.Response:
    return await client.post("/api/ingest", json=make_run(projectId=project_id), headers=RIGHT | headers)


async def post_from_many(server: Server, number: int, headers: dict[str, str], project_id: str) -> list[httpx.Response]:
    """At the same time, each over a connection of its own, so that both workers get some."""

    async def one() -> httpx.Response:
        async with client_of(server.url, headers) as client:
            return await client.post("/api/ingest", json=make_run(projectId=project_id))

    return await asyncio.gather(*(one() for _ in range(number)))


async def stored(database: Database, project_id: str) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM runs WHERE project_id = $1", project_id))


def test_the_limit_is_1000_unless_it_is_set() -> None:
    assert Settings.model_fields["svc_rate_limit_per_minute"].default == 1000


async def test_of_fifty_clients_at_once_over_two_workers_exactly_the_limit_passes(
    limited_server: Server, database: Database, project_id: str
) -> None:
    responses = await post_from_many(limited_server, 50, RIGHT, project_id)

    assert Counter(response.status_code for response in responses) == {200: PER_PROJECT, 429: 50 - PER_PROJECT}
    assert await stored(database, project_id) == PER_PROJECT


async def test_the_limit_passes_and_one_past_it_is_refused(limited: httpx.AsyncClient, project_id: str) -> None:
    responses = [await post(limited, project_id) for _ in range(PER_PROJECT)]
    refused = await post(limited, project_id)

    assert [response.status_code for response in responses] == [200] * PER_PROJECT
    assert_error(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 60 / PER_PROJECT


async def test_every_answer_tells_the_limit_the_rest_and_when_it_resets(
    limited: httpx.AsyncClient, project_id: str
) -> None:
    responses = [await post(limited, project_id) for _ in range(PER_PROJECT + 2)]

    headers = [response.headers for response in responses]
    assert {header["ratelimit-limit"] for header in headers} == {str(PER_PROJECT)}
    assert [int(header["ratelimit-remaining"]) for header in headers] == [*range(PER_PROJECT - 1, -1, -1), 0, 0]
    assert int(headers[0]["ratelimit-reset"]) == 60 / PER_PROJECT
    # A worker knows without the store, for as long as that is certain, and its own clock goes on.
    assert 60 - 60 / PER_PROJECT <= int(headers[-1]["ratelimit-reset"]) <= 60


async def test_each_project_has_a_limit_of_its_own(limited: httpx.AsyncClient, project_id: str) -> None:
    await asyncio.gather(*(post(limited, project_id) for _ in range(PER_PROJECT)))

    assert (await post(limited, project_id)).status_code == 429
    assert (await post(limited, f"{project_id}-other")).status_code == 200


async def test_a_batch_is_one_request_packed_or_not(limited: httpx.AsyncClient, project_id: str) -> None:
    body = json.dumps({"projectId": project_id, "runs": [make_run() for _ in range(30)]}).encode()
    headers = RIGHT | {"Content-Type": "application/json"}

    plain = await limited.post("/api/ingest", content=body, headers=headers)
    packed = await limited.post(
        "/api/ingest", content=gzip.compress(body), headers=headers | {"Content-Encoding": "gzip"}
    )

    assert plain.json()["processed"] == packed.json()["processed"] == 30
    assert plain.headers["ratelimit-remaining"] == str(PER_PROJECT - 1)
    assert packed.headers["ratelimit-remaining"] == str(PER_PROJECT - 2)


async def test_a_request_that_is_refused_for_its_runs_is_counted_too(
    limited: httpx.AsyncClient, project_id: str
) -> None:
    response = await limited.post("/api/ingest", json={"projectId": project_id, "runs": []}, headers=RIGHT)

    assert_error(response, 422, "invalid_payload", paths=["runs"])
    assert response.headers["ratelimit-remaining"] == str(PER_PROJECT - 1)


@pytest.mark.parametrize("headers", [{}, WRONG])
async def test_who_may_not_ingest_uses_up_nothing(
    limited: httpx.AsyncClient, project_id: str, address: str, headers: dict[str, str]
) -> None:
    refused = [
        await limited.post(
            "/api/ingest", json=make_run(projectId=project_id), headers=headers | {"X-Forwarded-For": address}
        )
        for _ in range(PER_ADDRESS)
    ]
    accepted = await post(limited, project_id)

    assert {response.status_code for response in refused} == {401}
    assert all("ratelimit-limit" not in response.headers for response in refused)
    assert accepted.headers["ratelimit-remaining"] == str(PER_PROJECT - 1)


@pytest.mark.parametrize("body", [b"not json", b'{"provider": "acme"}', b'{"projectId": 7}', b'{"projectId": " "}'])
async def test_bodies_that_name_no_project_are_limited_by_address(
    limited: httpx.AsyncClient, project_id: str, address: str, body: bytes
) -> None:
    headers = RIGHT | {"Content-Type": "application/json", "X-Forwarded-For": address}

    statuses = [
        (await limited.post("/api/ingest", content=body, headers=headers)).status_code for _ in range(PER_PROJECT + 1)
    ]

    assert statuses[0] in {400, 422}
    assert statuses == [statuses[0]] * PER_PROJECT + [429]
    assert (await post(limited, project_id, **{"X-Forwarded-For": address})).status_code == 200


async def test_reading_is_not_limited(limited: httpx.AsyncClient, metrics_key: str) -> None:
    responses = [
        await limited.get("/api/metrics", headers={"Authorization": f"Bearer {metrics_key}"})
        for _ in range(PER_PROJECT + 2)
    ]

    assert {response.status_code for response in responses} == {200}
    assert all("ratelimit-limit" not in response.headers for response in responses)


async def test_an_address_may_send_so_many_wrong_keys_and_not_one_more(
    limited: httpx.AsyncClient, project_id: str, address: str
) -> None:
    wrong = [await post(limited, project_id, **WRONG, **{"X-Forwarded-For": address}) for _ in range(PER_ADDRESS)]
    one_more = await post(limited, project_id, **WRONG, **{"X-Forwarded-For": address})

    for response in wrong:
        assert_error(response, 401, "invalid_key")
    assert_error(one_more, 429, "rate_limited")
    assert 1 <= int(one_more.headers["retry-after"]) <= 60 / PER_ADDRESS
    assert one_more.headers["ratelimit-limit"] == str(PER_ADDRESS)
    assert one_more.headers["ratelimit-remaining"] == "0"


async def test_after_too_many_wrong_keys_not_even_the_right_one_is_looked_at_from_there_but_it_is_from_elsewhere(
    limited_server: Server, limited: httpx.AsyncClient, project_id: str, address: str
) -> None:
    await post_from_many(limited_server, 20, WRONG | {"X-Forwarded-For": address}, project_id)
    for attempt in range(200):
        # Each worker learns it from a wrong key of its own, and which of them takes a connection is up to the system.
        wrong = await post(limited, project_id, **WRONG, **{"X-Forwarded-For": address})
        assert_error(wrong, 429, "rate_limited")
        # To a project of its own, whose limit is not used up.
        right = await post(limited, f"{project_id}-{attempt}", **{"X-Forwarded-For": address})
        if right.status_code != 200:
            break

    assert_error(right, 429, "rate_limited")
    assert (await post(limited, project_id, **{"X-Forwarded-For": "192.0.2.1"})).status_code == 200


async def test_wrong_project_keys_and_wrong_ingest_keys_are_counted_together(
    limited: httpx.AsyncClient, project_id: str, metrics_key: str, address: str
) -> None:
    from_there = {"X-Forwarded-For": address}
    for _ in range(PER_ADDRESS // 2):
        assert_error(await limited.get("/api/metrics", headers=WRONG | from_there), 401, "invalid_key")
        assert_error(await post(limited, project_id, **WRONG, **from_there), 401, "invalid_key")

    wrong = await limited.get("/api/metrics", headers=WRONG | from_there)
    right = await limited.get("/api/metrics", headers={"Authorization": f"Bearer {metrics_key}"} | from_there)

    assert_error(wrong, 429, "rate_limited")
    assert_error(right, 429, "rate_limited")


async def test_wrong_keys_at_once_over_two_workers_are_counted_together(
    limited_server: Server, project_id: str, address: str
) -> None:
    responses = await post_from_many(limited_server, 50, WRONG | {"X-Forwarded-For": address}, project_id)

    assert Counter(response.status_code for response in responses) == {401: PER_ADDRESS, 429: 50 - PER_ADDRESS}


async def test_right_keys_and_missing_ones_are_no_wrong_keys(
    limited: httpx.AsyncClient, project_id: str, address: str
) -> None:
    from_there = {"X-Forwarded-For": address}
    for _ in range(PER_PROJECT + 1):
        missing = await limited.post("/api/ingest", json=make_run(projectId=project_id), headers=from_there)
        right = await post(limited, project_id, **from_there)

    assert_error(missing, 401, "missing_key")
    assert right.status_code == 429
    assert right.headers["ratelimit-limit"] == str(PER_PROJECT)
    assert (await post(limited, f"{project_id}-other", **from_there)).status_code == 200


async def test_wrong_keys_on_the_sign_in_page_are_limited_too(limited: httpx.AsyncClient, address: str) -> None:
    from_there = {"X-Forwarded-For": address}

    statuses = [
        (await limited.post("/sign-in", data={"key": "wrong-key"}, headers=from_there)).status_code
        for _ in range(PER_ADDRESS + 1)
    ]

    assert statuses == [422] * PER_ADDRESS + [429]


async def test_a_project_key_is_limited_as_its_project_is_whether_the_body_names_it_or_not(
    database_url: str, database: Database, project_id: str
) -> None:
    async with database.session() as session:
        key = issue(session, system_clock(), OPERATOR, project_id=project_id, scopes=[Scope.RUNS_WRITE]).secret
    app = create_app(settings_for(database_url, svc_rate_limit_per_minute=2))
    async with app.test_app():
        client = app.test_client()
        by_key = await client.post("/api/ingest", json=make_run(), headers={"Authorization": f"Bearer {key}"})
        shared = await client.post("/api/ingest", json=make_run(projectId=project_id), headers=RIGHT)
        one_more = await client.post("/api/ingest", json=make_run(), headers={"Authorization": f"Bearer {key}"})

    assert [response.status_code for response in (by_key, shared, one_more)] == [200, 200, 429]


async def test_ingest_is_closed_while_the_store_of_limits_is_away(
    database_url: str, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(LimitStore, "take", take)
    app = create_app(settings_for(database_url))
    async with app.test_app():
        response = await app.test_client().post("/api/ingest", json=make_run(projectId=project_id), headers=RIGHT)

        body = await response.get_json()

    assert response.status_code == 503
    assert body["error"]["code"] == "store_unavailable"
    assert int(response.headers["Retry-After"]) > 0

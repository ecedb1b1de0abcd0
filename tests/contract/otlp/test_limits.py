"""Limits of OTLP requests, and what exporters are answered when nothing can be stored."""

import gzip
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from quart import Quart
from quart import typing as quart_typing

from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.ingest.writer import Writer
from tests.limits import create_without_time
from tests.otlp import JSON, PROTOBUF, RUN, assert_refused, ids_of, request_for
from tests.serving import INGEST_KEY, Postgres, Server, client_of, running_server
from tests.spans import as_json, as_protobuf, chat, joined, make_span

LIMIT = 200_000


@pytest.fixture(scope="module")
def small_server(postgres: Postgres) -> Iterator[Server]:
    """A service that takes two requests for a project, two wrong keys from an address, and no large bodies."""
    with running_server(
        create_without_time(postgres, "small"),
        SVC_RATE_LIMIT_PER_MINUTE="2",
        WRONG_KEY_LIMIT_PER_MINUTE="2",
        OTLP_MAX_BODY_BYTES=str(LIMIT),
    ) as server:
        yield server


@pytest.fixture(scope="module")
async def small_database(small_server: Server) -> AsyncIterator[Database]:
    async with Database(small_server.database_url) as database:
        yield database


@pytest.fixture
async def small_client(small_server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(small_server.url, {"Authorization": f"Bearer {INGEST_KEY}", **JSON}) as client:
        yield client


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_body_over_the_limit_is_refused_also_after_it_is_unpacked(
    small_client: httpx.AsyncClient, encoding: str
) -> None:
    body = as_json(request_for("x", make_span(chat(gen_ai__input__messages="x" * LIMIT))))
    sent = gzip.compress(body) if encoding == "gzip" else body

    response = await small_client.post("/v1/traces", content=sent, headers={"Content-Encoding": encoding})

    assert_refused(response, 413, 8)


async def test_a_body_may_be_larger_than_those_of_the_api(client: httpx.AsyncClient, project_id: str) -> None:
    prompt = "x" * 6 * 1024 * 1024
    body = as_protobuf(request_for(project_id, make_span(chat(gen_ai__input__messages=prompt))))

    for sent, encoding in ((body, "identity"), (gzip.compress(body), "gzip")):
        response = await client.post("/v1/traces", content=sent, headers={**PROTOBUF, "Content-Encoding": encoding})
        assert response.status_code == 200


async def test_past_the_rate_limit_exporters_are_asked_to_come_again(
    small_client: httpx.AsyncClient, small_database: Database, project_id: str
) -> None:
    bodies = [as_json(request_for(project_id, make_span(spanId=f"{number:016x}"))) for number in range(1, 5)]

    answers = [await small_client.post("/v1/traces", content=body) for body in bodies]

    assert [answer.status_code for answer in answers] == [200, 200, 503, 503]
    assert_refused(answers[2], 503, 14)
    assert answers[2].headers["retry-after"] in {"1", "2", "3"}
    assert len(await ids_of(small_database, project_id)) == 2


async def test_one_project_past_its_limit_keeps_all_of_a_request_out(
    small_client: httpx.AsyncClient, small_database: Database, project_id: str
) -> None:
    for number in (1, 2):
        sent = request_for(f"{project_id}-a", make_span(spanId=f"{number:016x}"))
        await small_client.post("/v1/traces", content=as_json(sent))

    both = joined(request_for(f"{project_id}-b"), request_for(f"{project_id}-a"))
    response = await small_client.post("/v1/traces", content=as_json(both))

    assert_refused(response, 503, 14)
    assert await ids_of(small_database, f"{project_id}-b") == []


async def test_a_request_without_calls_is_not_counted_where_only_calls_say_their_project(
    small_client: httpx.AsyncClient, project_id: str
) -> None:
    body = as_json(request_for(project_id, make_span({"http.request.method": "GET"})))

    answers = [await small_client.post("/v1/traces", content=body) for _ in range(5)]

    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
async def test_a_request_that_names_its_project_is_counted_whatever_its_body_is(
    small_client: httpx.AsyncClient, project_id: str, signal: str
) -> None:
    bodies = [as_json(request_for(project_id, make_span({"http.request.method": "GET"}))), b"", b"{", b"{}"]

    by_path = [
        await small_client.post(f"/api/otlp/p/{project_id}/v1/{signal}", content=body if signal == "traces" else b"{}")
        for body in bodies
    ]
    headers = {"X-Runtally-Project": project_id}
    by_header = await small_client.post(f"/v1/{signal}", content=b"{", headers=headers)

    assert [answer.status_code for answer in by_path] == [200, 200, 503, 503]
    # Refused before it is read, although it is no JSON.
    assert_refused(by_header, 503, 14)


async def test_a_request_that_names_its_project_is_counted_once(
    small_client: httpx.AsyncClient, small_database: Database, project_id: str
) -> None:
    bodies = [as_json(request_for("x", make_span(spanId=f"{number:016x}"))) for number in range(1, 4)]

    path = f"/api/otlp/p/{project_id}/v1/traces"
    answers = [await small_client.post(path, content=body) for body in bodies]

    assert [answer.status_code for answer in answers] == [200, 200, 503]
    assert len(await ids_of(small_database, project_id)) == 2


async def test_too_many_wrong_keys_wait(small_server: Server) -> None:
    # Nobody else's address, as a proxy on this machine would report it.
    headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.7", **PROTOBUF}
    async with client_of(small_server.url, headers) as client:
        answers = [await client.post("/v1/traces", content=b"") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [401, 401, 503, 503]
    assert answers[-1].headers["retry-after"] in {"1", "2", "3"}


async def post_to(client: quart_typing.TestClientProtocol, project_id: str) -> httpx.Response:
    headers = {**JSON, "Authorization": f"Bearer {INGEST_KEY}"}
    response = await client.post("/v1/traces", data=as_json(request_for(project_id)), headers=headers)
    return httpx.Response(response.status_code, headers=dict(response.headers), content=await response.get_data())


async def test_runs_that_cannot_be_stored_are_stored_when_sent_again(
    own_app: Quart, database: Database, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "put", unavailable)
        response = await post_to(own_app.test_client(), project_id)
    assert_refused(response, 503, 14)
    assert response.headers["retry-after"] in {"1", "2", "3"}

    assert (await post_to(own_app.test_client(), project_id)).status_code == 200
    assert await ids_of(database, project_id) == [RUN]


async def test_a_bug_is_no_partial_success(own_app: Quart, project_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a canary")

    monkeypatch.setattr(Writer, "put", broken)
    response = await post_to(own_app.test_client(), project_id)

    assert_refused(response, 500, 13)
    assert "canary" not in response.text

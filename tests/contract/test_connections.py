"""A connection answers plain requests itself."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from quart import Quart

from api import limits
from runtally.limits.rate import Rate
from runtally.settings import Settings
from tests.factories import make_run
from tests.lines import Heard, Line, known, request
from tests.serving import INGEST_KEY
from webapp.express import posts


async def test_a_plain_request_needs_no_quart(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))

    status, headers, body = await line.answer()

    assert (line.went_on, status, msgspec.json.decode(body)) == ([], 200, {"ok": True, "id": "run-1"})
    assert (headers["content-length"], headers["x-frame-options"]) == (str(len(body)), "deny")
    assert not line.wire.closed


async def test_a_body_may_come_behind_its_head(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))
    size = whole.index(b"\r\n\r\n") + 4

    line.send(whole[:10], whole[10:size], whole[size:])

    assert (await line.answer())[0] == 200
    assert line.went_on == []


async def test_one_connection_serves_one_request_after_the_other(line: Line, run_of: Callable[[str], bytes]) -> None:
    for number in range(3):
        line.send(request(run_of(f"run-{number}")))
        _, _, body = await line.answer()
        assert msgspec.json.decode(body)["id"] == f"run-{number}"
    assert line.went_on == []


async def test_answers_come_in_the_order_of_requests_that_came_together(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    line.send(request(run_of("run-1")) + request(b"{}", content_type="text/plain") + request(run_of("run-2")))

    first, second, third = [await line.answer() for _ in range(3)]

    assert msgspec.json.decode(first[2])["id"] == "run-1"
    assert (second[2], third[2]) == (b"echo", b"echo")
    assert line.went_on == [b"{}", run_of("run-2")]


@pytest.mark.parametrize(("version", "connection_header"), [("1.0", "keep-alive"), ("1.1", "close")])
async def test_a_connection_that_is_not_kept_is_closed(
    line: Line, run_of: Callable[[str], bytes], version: str, connection_header: str
) -> None:
    line.send(request(run_of("run-1"), version, connection=connection_header))

    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)


async def test_a_client_that_has_gone_is_not_written_to(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))
    line.wire.close()

    await line.end()

    assert line.wire.answers.empty()


async def test_a_server_that_stops_answers_first(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))
    line.protocol.shutdown()
    assert not line.wire.closed

    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)


async def test_a_server_that_stops_waits_for_a_body(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))
    size = len(run_of("run-1"))
    line.send(whole[:-size])
    line.protocol.shutdown()

    line.send(whole[-size:])

    assert (await line.answer())[0] == 200
    assert line.went_on == [run_of("run-1")]


@pytest.mark.parametrize(
    "bad",
    [
        b"no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_comes_after_a_request_and_is_none_is_not_taken_for_its_answer(
    line: Line, run_of: Callable[[str], bytes], bad: bytes
) -> None:
    line.send(request(run_of("run-1")) + bad)

    status, headers, body = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)
    assert msgspec.json.decode(body)["id"] == "run-1"


@pytest.mark.parametrize("key", [INGEST_KEY, "another"])
async def test_a_body_that_breaks_off_into_what_is_no_http_is_refused_at_once(line: Line, key: str) -> None:
    whole = request(b"", authorization=f"Bearer {key}").replace(b"content-length: 0", b"transfer-encoding: chunked")

    line.send(whole + b"2\r\n{}\r\n")
    await asyncio.sleep(0)
    line.send(b"no length\r\n")

    assert (await line.answer())[0] == 400
    assert line.wire.closed


@pytest.mark.parametrize("seed", range(12))
async def test_answers_are_the_same_however_the_bytes_are_cut(app: Quart, project_id: str, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311  # Nothing secret.
    sent, expected = b"", []
    for number in range(8):
        run = msgspec.json.encode(make_run(projectId=project_id, runId=f"{seed}-{number}"))
        stored = (200, {"ok": True, "id": f"{seed}-{number}"})
        kinds: list[tuple[bytes, tuple[int, Any]]] = [
            (request(run), stored),
            (request(run, x_api_key="ignored"), stored),
            (request(run).replace(b"/ingest", b"/ingest?onError=refuse"), stored),
            (request(b"["), (400, "invalid_json")),
            (request(run, authorization="Bearer another"), (401, "invalid_key")),
            (b"GET /api/badge/experiment/none.svg?style=none HTTP/1.1\r\nhost: localhost\r\n\r\n", (200, None)),
            (b"GET /api/badge/experiment/none.json HTTP/1.1\r\nhost: localhost\r\n\r\n", (404, "unknown_experiment")),
            (b"GET /api/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n", (200, {"ok": True, "status": "live"})),
        ]
        one, answer = choose.choice(kinds)
        sent += one
        expected.append(answer)
    line, heard = Line(app, app.asgi_app), Heard()
    cuts = sorted(choose.sample(range(1, len(sent)), choose.choice([0, 5, 40])))

    for start, end in pairwise([0, *cuts, len(sent)]):
        line.send(sent[start:end])
        if choose.random() < 0.5:
            await asyncio.sleep(0)
    async with asyncio.timeout(20):
        while len(heard.answers) < len(expected):
            heard.parser.feed_data(await line.wire.answers.get())

    assert [(status, known(body)) for status, body in heard.answers] == expected
    await line.end()


async def test_a_trusted_proxy_says_who_asks(
    line: Line, run_of: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def wrong_keys_of(address: str | None, settings: Settings) -> tuple[str, Rate]:
        asked.append(address)
        return limits.wrong_keys_of(address, settings)

    monkeypatch.setattr(posts, "wrong_keys_of", wrong_keys_of)
    line.send(request(run_of("run-1"), x_forwarded_for="203.0.113.7", x_forwarded_proto="https"))

    _, headers, _ = await line.answer()

    assert asked == ["203.0.113.7"]
    assert "strict-transport-security" in headers

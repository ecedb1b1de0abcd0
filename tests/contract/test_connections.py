"""What a connection makes of the bytes that come, however they are cut."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from quart import Quart

from runtally.limits import wrong_keys
from runtally.limits.wrong_keys import source_of
from tests.factories import make_run
from tests.lines import Heard, Line, known, request
from tests.serving import INGEST_KEY, PATIENCE_SECONDS
from webapp.server.protocol import MAX_HEAD_BYTES
from webapp.server.tracing import Receive, Scope, Send


async def test_a_plain_request_needs_no_quart(line: Line, run_of: Callable[[str], bytes]) -> None:
    line.send(request(run_of("run-1")))

    status, headers, body = await line.answer()

    assert (line.scopes, status, msgspec.json.decode(body)) == ([], 200, {"ok": True, "id": "run-1"})
    assert headers["content-length"] == str(len(body))
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
    other = request(b"{}").replace(b"/api/ingest", b"/api/other")
    line.send(request(run_of("run-1")) + other + request(run_of("run-2")))

    first, second, third = [await line.answer() for _ in range(3)]

    assert (msgspec.json.decode(first[2])["id"], msgspec.json.decode(third[2])["id"]) == ("run-1", "run-2")
    assert (second[2], line.went_on) == (b"echo", [b"{}"])


@pytest.mark.parametrize(("version", "connection_header"), [("1.0", "keep-alive"), ("1.1", "close")])
async def test_a_connection_that_is_not_kept_is_closed(
    line: Line, run_of: Callable[[str], bytes], version: str, connection_header: str
) -> None:
    line.send(request(run_of("run-1"), version, connection=connection_header))

    status, headers, _ = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)


async def test_nothing_is_written_to_a_client_that_disconnected(line: Line, run_of: Callable[[str], bytes]) -> None:
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


@pytest.mark.parametrize(
    "bad",
    [
        b"no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_invalid_bytes_after_a_request_do_not_change_its_answer(
    line: Line, run_of: Callable[[str], bytes], bad: bytes
) -> None:
    line.send(request(run_of("run-1")) + bad)

    status, headers, body = await line.answer()

    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)
    assert msgspec.json.decode(body)["id"] == "run-1"


@pytest.mark.parametrize("key", [INGEST_KEY, "another"])
async def test_a_body_that_ends_in_invalid_http_is_refused_at_once(line: Line, key: str) -> None:
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
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(heard.answers) < len(expected):
            heard.parser.feed_data(await line.wire.answers.get())

    assert [(status, known(body)) for status, body in heard.answers] == expected
    await line.end()


@pytest.mark.parametrize("size", [10_000, 7, 1])
@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_a_request_for_another_protocol_is_answered_as_if_it_had_not_asked(
    line: Line, protocol: str, size: int
) -> None:
    asking = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": protocol,
        "http2_settings": "AAMAAABkAAQAoAAAAAIAAAAA",
    }
    bodies = [b'{"of": "one"}', b"", b'{"of": "another"}', b"{}"]
    sent = b"".join(request(body, **asking) for body in bodies).replace(b"/api/ingest", b"/api/other")

    line.send(*(sent[start : start + size] for start in range(0, len(sent), size)))
    answers = [await line.answer() for _ in bodies]

    assert [body for _, _, body in answers] == [b"echo"] * 4
    assert line.went_on == bodies
    assert not line.wire.closed


async def test_a_body_may_come_in_pieces_and_chunks(line: Line, run_of: Callable[[str], bytes]) -> None:
    run = run_of("run-1")
    whole = request(run)
    chunked = whole.removesuffix(run).replace(b"content-length: %d" % len(run), b"transfer-encoding: chunked")

    line.send(whole[:-20], whole[-20:-5], whole[-5:])
    in_pieces = await line.answer()
    line.send(chunked, b"5\r\n%b\r\n" % run[:5], b"%x\r\n%b\r\n0\r\n\r\n" % (len(run) - 5, run[5:]))
    in_chunks = await line.answer()

    assert [in_pieces[0], in_chunks[0]] == [200, 200]
    assert msgspec.json.decode(in_chunks[2]) == {"ok": True, "id": "run-1", "duplicates": 1}


async def test_the_first_of_a_repeated_header_counts(line: Line, run_of: Callable[[str], bytes]) -> None:
    first, second = request(run_of("run-1")), request(run_of("run-1"), authorization="Bearer another")

    line.send(first.replace(b"\r\n\r\n", b"\r\nauthorization: Bearer another\r\n\r\n", 1))
    taken = await line.answer()
    line.send(second.replace(b"\r\n\r\n", f"\r\nauthorization: Bearer {INGEST_KEY}\r\n\r\n".encode(), 1))
    refused = await line.answer()

    assert (taken[0], refused[0]) == (200, 401)


@pytest.mark.parametrize("through_quart", [False, True])
async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    app: Quart, monkeypatch: pytest.MonkeyPatch, *, through_quart: bool
) -> None:
    async def without_raw_path(scope: Scope, receive: Receive, send: Send) -> None:
        await app.asgi_app({**scope, "raw_path": None}, receive, send)  # type: ignore[arg-type]  # A scope.

    monkeypatch.setitem(app.config, "BODY_TIMEOUT", 0.05)
    line = Line(app, without_raw_path if through_quart else app.asgi_app)
    line.send(request(b"{}").removesuffix(b"{}"))

    status, headers, body = await line.answer()

    assert (status, headers["connection"]) == (408, "close")
    assert msgspec.json.decode(body)["error"]["code"] == "request_timeout"
    await line.end()


async def test_a_client_that_disconnects_within_its_body_is_not_answered(app: Quart) -> None:
    line = Line(app, app.asgi_app)
    line.send(request(b"{}").removesuffix(b"{}"))

    await line.end()

    assert line.wire.answers.empty()


@pytest.mark.parametrize("piece", [b"x-another: trailer\r\n" * 100, b"x" * 2_000])
async def test_headers_after_a_body_are_not_read_without_limit(line: Line, piece: bytes) -> None:
    line.send(request(b"").replace(b"content-length: 0", b"transfer-encoding: chunked") + b"2\r\n{}\r\n0\r\nx-a: ")

    for _ in range(MAX_HEAD_BYTES // len(piece) + 1):
        assert not line.wire.closed
        line.send(piece)

    assert line.wire.closed


async def test_a_connection_that_lives_long_may_still_send_a_body_in_pieces(line: Line) -> None:
    badge = b"GET /api/other HTTP/1.1\r\nhost: localhost\r\nx-long: %b\r\n\r\n" % (b"x" * 10_000)
    for _ in range(MAX_HEAD_BYTES // len(badge) + 1):
        line.send(badge)
        await line.answer()

    whole = request(b"{}")
    line.send(whole[:-2], whole[-2:])

    assert (await line.answer())[0] == 400


async def test_a_trusted_proxy_reports_the_address_of_the_client(
    line: Line, run_of: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def noted(address: str | None) -> str:
        asked.append(address)
        return source_of(address)

    monkeypatch.setattr(wrong_keys, "source_of", noted)
    line.send(request(run_of("run-1"), x_forwarded_for="203.0.113.7", x_forwarded_proto="https"))

    await line.answer()

    assert asked == ["203.0.113.7"]


async def test_a_body_that_comes_at_once_behind_its_head_needs_no_quart(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    whole = request(run_of("run-1"))
    size = whole.index(b"\r\n\r\n") + 4

    line.send(whole[:size], whole[size:-5], whole[-5:])

    assert (await line.answer())[0] == 200
    assert line.scopes == []


async def test_a_body_that_comes_late_goes_the_longer_way(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))

    line.send(whole[:-5])
    async with asyncio.timeout(PATIENCE_SECONDS):
        await line.has_gone_on.wait()
    line.send(whole[-5:])

    assert (await line.answer())[0] == 200


async def test_a_large_body_that_comes_in_pieces_goes_the_longer_way(line: Line, project_id: str) -> None:
    runs = [make_run(runId=f"run-{number}", metadata={"note": "x" * 900}) for number in range(100)]
    whole = request(msgspec.json.encode({"projectId": project_id, "runs": runs}))

    line.send(whole[:70_000], whole[70_000:])

    assert (await line.answer())[0] == 200
    assert len(line.scopes) == 1


async def test_a_request_that_comes_before_the_answer_to_another_waits_for_it(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    for number in range(3):
        line.send(request(run_of(f"run-{number}")))

    answers = [await line.answer() for _ in range(3)]

    assert [msgspec.json.decode(body)["id"] for _, _, body in answers] == ["run-0", "run-1", "run-2"]


async def test_a_client_that_does_not_read_its_answers_is_not_written_to(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    line.protocol.pause_writing()
    line.send(request(run_of("run-1")))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await line.has_gone_on.wait()
    assert line.wire.answers.empty()

    line.protocol.resume_writing()

    assert (await line.answer())[0] == 200


async def test_a_connection_is_kept_between_requests_and_closed_once_it_is_idle(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    line.protocol.timeout_keep_alive = 1
    for number in range(2):
        line.send(request(run_of(f"run-{number}")))
        await line.answer()
        assert not line.wire.closed

    async with asyncio.timeout(PATIENCE_SECONDS):
        await line.wire.is_closed.wait()


async def test_a_half_request_is_given_to_the_parser_when_the_server_stops(
    line: Line, run_of: Callable[[str], bytes]
) -> None:
    whole = request(run_of("run-1"))
    line.send(whole[:-5])

    line.protocol.shutdown()
    line.send(whole[-5:])

    status, headers, _ = await line.answer()
    assert (status, headers["connection"], line.wire.closed) == (200, "close", True)

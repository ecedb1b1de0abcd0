"""What a connection does not answer itself goes on to the application as it came."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from quart import Quart

from tests.lines import Line, request
from tests.serving import INGEST_KEY
from webapp.express import connection


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": "Bearer another"},
        {"authorization": f"Basic {INGEST_KEY}"},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"host": "elsewhere.example"},
        {"expect": "100-continue"},
    ],
    ids=str,
)
async def test_what_is_out_of_the_ordinary_goes_on_untouched(
    line: Line, run_of: Callable[[str], bytes], changes: dict[str, str]
) -> None:
    line.send(request(run_of("run-1"), **changes))
    await line.answer()

    assert line.went_on == [run_of("run-1")]
    assert {(name.replace("_", "-").encode(), value.encode()) for name, value in changes.items()} <= set(
        line.scopes[0]["headers"]
    )


async def test_a_body_without_a_length_goes_on(line: Line) -> None:
    whole = request(b"{}").replace(b"content-length: 2", b"transfer-encoding: chunked")

    line.send(whole.removesuffix(b"{}") + b"2\r\n{}\r\n0\r\n\r\n")
    await line.answer()

    assert line.went_on == [b"{}"]


@pytest.mark.parametrize("size", [10_000, 7, 1])
@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_a_request_for_another_protocol_is_answered_as_if_it_had_not_asked(
    line: Line, run_of: Callable[[str], bytes], protocol: str, size: int
) -> None:
    asking = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": protocol,
        "http2_settings": "AAMAAABkAAQAoAAAAAIAAAAA",
    }
    bodies = [run_of("run-1"), b'{"un": "usual"}', run_of("run-2"), run_of("run-3")]
    kinds = [{}, {"content_type": "text/plain"}, {}, {}]
    sent = b"".join(request(body, **asking, **kind) for body, kind in zip(bodies, kinds, strict=True))

    line.send(*(sent[start : start + size] for start in range(0, len(sent), size)))
    answers = [await line.answer() for _ in bodies]

    assert [status for status, _, _ in answers] == [200] * 4
    assert answers[1][2] == b"echo"
    # What comes in pieces, or behind a request that waits for its answer, is none for the connection itself.
    assert line.went_on == (bodies if size < len(sent) else bodies[1:])
    assert not line.wire.closed


async def test_a_body_in_pieces_goes_on_whole(line: Line, run_of: Callable[[str], bytes]) -> None:
    whole = request(run_of("run-1"))

    line.send(whole[:-20], whole[-20:-5], whole[-5:])
    await line.answer()

    assert line.went_on == [run_of("run-1")]


async def test_a_header_that_comes_twice_goes_on(line: Line) -> None:
    line.send(request(b"{}").replace(b"\r\n\r\n", b"\r\nauthorization: Bearer another\r\n\r\n"))
    await line.answer()

    assert line.went_on == [b"{}"]


async def test_a_badge_on_condition_goes_on(line: Line) -> None:
    line.send(b'GET /api/badge/experiment/a.svg HTTP/1.1\r\nhost: localhost\r\nif-match: "another"\r\n\r\n')
    await line.answer()

    assert line.went_on == [b""]


async def test_another_path_or_query_goes_on(line: Line) -> None:
    for target in (b"/api/ingest?onError=skip", b"/api/ingest/", b"/api/%69ngest"):
        line.send(request(b"{}").replace(b"/api/ingest", target))
        await line.answer()

    assert line.went_on == [b"{}"] * 3


async def test_a_body_that_does_not_come_is_waited_for_by_quart(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELD_SECONDS", 0.0)
    line.send(request(b"{}").removesuffix(b"{}"))
    await asyncio.sleep(0.01)

    line.send(b"{}")
    await line.answer()

    assert line.went_on == [b"{}"]


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HELD_SECONDS", 0.0)
    monkeypatch.setitem(app.config, "BODY_TIMEOUT", 0.05)
    line = Line(app, app.asgi_app)
    line.send(request(b"{}").removesuffix(b"{}"))

    status, headers, body = await line.answer()

    assert (status, headers["connection"]) == (408, "close")
    assert msgspec.json.decode(body)["error"]["code"] == "request_timeout"
    await line.end()

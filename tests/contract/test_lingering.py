"""A refusal reaches a client that is still sending its body, whichever client that is."""

import asyncio
import http.client
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import httpx
import msgspec
import pytest
from quart import Quart

from tests.limits import create_without_time
from tests.lines import Line, request
from tests.serving import INGEST_KEY, PATIENCE_SECONDS, Postgres, Server, running_server
from webapp.server import lingering

CURL = shutil.which("curl") or ""
MB = 1_000_000
SIZES = {6 * MB: 3, 20 * MB: 2}
"""How often bodies of so many bytes are posted."""
JSON = {"Content-Type": "application/json"}
RIGHT = JSON | {"Authorization": f"Bearer {INGEST_KEY}"}
WRONG = JSON | {"Authorization": "Bearer wrong-key"}
INGEST = "/api/ingest"
REFUSALS: dict[str, tuple[str, Mapping[str, str], int]] = {
    "no key": (INGEST, JSON, 401),
    "a wrong key": (INGEST, WRONG, 401),
    "too large": (INGEST, RIGHT, 413),
    "too large with a query": (f"{INGEST}?onError=skip", RIGHT, 413),
    "too large and packed": (INGEST, RIGHT | {"Content-Encoding": "gzip"}, 413),
    "no JSON": (INGEST, RIGHT | {"Content-Type": "text/plain"}, 415),
    "no document": ("/api/internal/pg-sync", JSON, 503),
    "no route": ("/api/nothing", JSON, 404),
    "a large form": ("/sign-in", {"Content-Type": "application/x-www-form-urlencoded"}, 413),
}

Heard = tuple[int, bytes]
Client = Callable[[str, Mapping[str, str], bytes, Path], Heard]


def by_urllib(url: str, headers: Mapping[str, str], body: bytes, _: Path) -> Heard:
    """It asks for the connection to be closed."""
    try:
        posted = urllib.request.Request(url, body, dict(headers))  # noqa: S310  # The test's own server.
        with urllib.request.urlopen(posted, timeout=60) as answer:  # noqa: S310  # As above.
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def by_http_client(url: str, headers: Mapping[str, str], body: bytes, _: Path) -> Heard:
    return _http_client(url, headers, body)


def by_http_client_in_chunks(url: str, headers: Mapping[str, str], body: bytes, _: Path) -> Heard:
    return _http_client(url, headers, (body[start : start + 65_536] for start in range(0, len(body), 65_536)))


def _http_client(url: str, headers: Mapping[str, str], body: bytes | Iterator[bytes]) -> Heard:
    target = httpx.URL(url)
    connection = http.client.HTTPConnection(target.host, target.port, timeout=60)
    with closing(connection):
        connection.request("POST", target.raw_path.decode(), body, dict(headers), encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()


def by_httpx(url: str, headers: Mapping[str, str], body: bytes, _: Path) -> Heard:
    # Nobody speaks TLS here, and reading the system's certificates takes longer than all else.
    answer = httpx.post(url, content=body, headers={**headers, "Connection": "close"}, timeout=60, verify=False)  # noqa: S501
    return answer.status_code, answer.content


def by_curl(url: str, headers: Mapping[str, str], body: bytes, folder: Path) -> Heard:
    return _curl(url, headers, body, folder, "--header", "Expect:", "--http1.0")


def by_curl_that_asks_first(url: str, headers: Mapping[str, str], body: bytes, folder: Path) -> Heard:
    return _curl(url, headers, body, folder, "--header", "Expect: 100-continue")


def _curl(url: str, headers: Mapping[str, str], body: bytes, folder: Path, *more: str) -> Heard:
    sent, heard = folder / "sent", folder / "heard"
    sent.write_bytes(body)
    lines = (argument for name, value in headers.items() for argument in ("--header", f"{name}: {value}"))
    told = ("--silent", "--output", str(heard), "--write-out", "%{http_code}")
    command = [CURL, *told, *lines, *more, "--data-binary", f"@{sent}", url]
    status = subprocess.check_output(command, timeout=60)  # noqa: S603  # Nothing that anybody else wrote.
    return int(status), heard.read_bytes()


CLIENTS: list[Client] = [by_urllib, by_http_client, by_http_client_in_chunks, by_httpx]
CLIENTS += [by_curl, by_curl_that_asks_first] if CURL else []


@pytest.fixture(scope="module")
def strict_server(postgres: Postgres) -> Iterator[Server]:
    """It takes one wrong key from an address, and then listens to none from there."""
    with running_server(create_without_time(postgres, "strict"), WRONG_KEY_LIMIT_PER_MINUTE="1") as server:
        httpx.post(f"{server.url}{INGEST}", headers=WRONG, timeout=PATIENCE_SECONDS)
        yield server


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_reaches_a_client_that_goes_on_sending(
    server: Server, tmp_path: Path, client: Client, refusal: str
) -> None:
    path, headers, status = REFUSALS[refusal]

    answers = heard_by(client, f"{server.url}{path}", headers, tmp_path)

    assert [status for status, _ in answers] == [status] * sum(SIZES.values())
    if path.startswith("/api"):
        assert all(msgspec.json.decode(body)["error"]["message"] for _, body in answers)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_sends_too_many_requests_is_refused(
    strict_server: Server, tmp_path: Path, client: Client
) -> None:
    answers = heard_by(client, f"{strict_server.url}{INGEST}", RIGHT, tmp_path)

    assert {(status, msgspec.json.decode(body)["error"]["code"]) for status, body in answers} == {(429, "rate_limited")}


def heard_by(client: Client, url: str, headers: Mapping[str, str], folder: Path) -> list[Heard]:
    return [client(url, headers, b" " * size, folder) for size, times in SIZES.items() for _ in range(times)]


def beginning(size: int) -> bytes:
    """A request with a key that is wrong, and with nothing yet of its body of so many bytes."""
    whole = request(b"", authorization="Bearer wrong-key")
    return whole.replace(b"content-length: 0", b"content-length: %d" % size)


@pytest.fixture
async def answered(app: Quart) -> Line:
    """A connection on which a request was refused that goes on."""
    line = Line(app, app.asgi_app)
    line.send(beginning(10 * MB))
    status, headers, _ = await line.answer()
    assert (status, headers["connection"], line.wire.closed) == (401, "close", False)
    return line


async def until_closed(line: Line) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await line.wire.is_closed.wait()
    await line.end()


async def test_the_connection_is_closed_behind_the_body(answered: Line) -> None:
    for _ in range(9):
        answered.send(b" " * MB)
        await asyncio.sleep(0)
    assert not answered.wire.closed

    answered.send(b" " * MB)

    await until_closed(answered)


async def test_no_more_than_so_many_bytes_are_dropped(answered: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_BYTES", 2 * MB)

    answered.send(b" " * MB, b" " * MB)

    await until_closed(answered)


@pytest.mark.parametrize("bound", ["LINGER_SECONDS", "SILENT_SECONDS"])
async def test_the_rest_is_not_waited_for_for_ever(app: Quart, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(lingering, bound, 0.0)
    line = Line(app, app.asgi_app)

    line.send(beginning(10 * MB))
    await line.answer()

    await until_closed(line)


async def test_a_connection_is_kept_if_the_whole_body_arrived(app: Quart) -> None:
    line = Line(app, app.asgi_app)

    line.send(request(b"{}", authorization="Bearer wrong-key"))
    status, headers, _ = await line.answer()

    assert (status, "connection" in headers, line.wire.closed) == (401, False, False)
    await line.end()

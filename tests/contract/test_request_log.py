"""What a running service logs: a line for each request, and never what was in it."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from runtally import COMMAND_AGENT
from tests.factories import make_run
from tests.ops.processes import until
from tests.serving import INGEST_KEY, PATIENCE_SECONDS, Postgres, Server, running_server

CANARY = "canary-9b2c"
TOKEN = f"metrics-token-{CANARY}"
BROKEN = (f"{CANARY} /{CANARY} HTTP/1.1", f"GET /{CANARY}\x01 HTTP/1.1", f"GET / HTTP/1.1\r\n{CANARY}")
"""What is no HTTP at all."""


class Log:
    """The log of a server, as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def text(self) -> str:
        """Whole lines only: the last may just be written."""
        return self.path.read_text().rpartition("\n")[0]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def of(self, response: httpx.Response) -> dict[str, Any]:
        """The one line of this answer's request; it is written just after the answer."""
        id_ = response.headers["x-request-id"]
        (line,) = until(
            lambda: [line for line in self.lines if line["event"] == "request" and line["request_id"] == id_]
        )
        return line


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "server.log"


@pytest.fixture(scope="module")
def log(log_path: Path) -> Log:
    return Log(log_path)


@pytest.fixture(scope="module")
def logged(postgres: Postgres, log_path: Path) -> Iterator[Server]:
    """A service that logs everything it ever does, with secrets that must not be in it."""
    url = postgres.create_seeded("logged")
    with running_server(
        url,
        log=log_path,
        LOG_LEVEL="DEBUG",
        LOG_FORMAT="json",
        METRICS_TOKEN=TOKEN,
        SERVICE_SYNC_SIGN=f"sync-{CANARY}",
        RELAY="off",
    ) as server:
        yield server


@pytest.fixture
async def broken_by_canary(logged: Server) -> AsyncIterator[None]:
    """A table that refuses the canary; the driver's message then repeats the whole row."""
    connection = await asyncpg.connect(logged.database_url)
    await connection.execute(f"ALTER TABLE runs ADD CONSTRAINT broken CHECK (client_id <> '{CANARY}')")
    yield
    await connection.execute("ALTER TABLE runs DROP CONSTRAINT broken")
    await connection.close()


@pytest.fixture
def sdk(logged: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=logged.url, headers={"Authorization": f"Bearer {INGEST_KEY}"}, timeout=60) as client:
        yield client


def test_a_request_is_one_line_with_its_route_and_its_measures(sdk: httpx.Client, log: Log) -> None:
    response = sdk.post("/api/ingest?onError=skip", json=make_run(projectId="p"))

    line = log.of(response)
    assert line.pop("duration_ms") > 0
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request",
        "level": "info",
        "request_id": response.headers["x-request-id"],
        "method": "POST",
        "route": "/api/ingest",
        "status": 200,
        "bytes": len(response.content),
    }


def test_a_request_without_a_route_is_one_line_too(sdk: httpx.Client, log: Log) -> None:
    lines = [log.of(sdk.get("/api/nothing")), log.of(sdk.head("/api/health")), log.of(sdk.put("/api/ingest"))]

    assert [(line["route"], line["status"], line["bytes"] > 0) for line in lines] == [
        ("none", 404, True),
        ("/api/health", 200, False),
        ("none", 405, True),
    ]


@pytest.mark.parametrize("path", ["/api/ingest", "/api/ingest?onError=skip"])
def test_requests_of_our_own_programs_are_logged_only_if_they_fail(sdk: httpx.Client, log: Log, path: str) -> None:
    own = {"User-Agent": COMMAND_AGENT}
    good = sdk.post(path, json=make_run(projectId="p"), headers=own)
    bad = sdk.post("/api/ingest", json=make_run(projectId="p", inputTokens=-1), headers=own)
    of_another = sdk.post(path, json=make_run(projectId="p"))

    assert [log.of(answer)["level"] for answer in (good, bad, of_another)] == ["debug", "info", "info"]


def test_a_server_error_is_logged_with_its_class_and_nothing_that_was_sent(
    broken_by_canary: None, sdk: httpx.Client, log: Log
) -> None:
    response = sdk.post("/api/ingest", json=make_run(projectId="p", id=CANARY, promptPreview=CANARY))

    line = log.of(response)
    assert response.status_code == 500
    assert (line["status"], line["level"], line["error"]) == (500, "warning", "CheckViolationError")
    (bug,) = [line for line in log.lines if line["event"] == "request_failed"]
    assert bug["request_id"] == line["request_id"]
    assert "runtally/ingest/queries.py" in bug["exception"]
    assert bug["exception"].endswith("CheckViolationError")
    assert CANARY not in response.text
    assert CANARY not in log.text


def test_no_content_and_no_key_is_ever_logged(logged: Server, sdk: httpx.Client, log: Log) -> None:
    content = make_run(projectId=CANARY, prompt=CANARY, completion=CANARY, model=CANARY, metadata={"note": CANARY})
    wrong = {"Authorization": f"Bearer {CANARY}"}
    sent = [
        sdk.post("/api/ingest", json=content),
        sdk.post("/api/ingest", json=content | {"status": CANARY, "inputTokens": CANARY}),
        sdk.post("/api/ingest", content=f'{{"projectId": "{CANARY}'),
        sdk.post("/api/ingest", content=CANARY, headers={"Content-Type": f"text/{CANARY}"}),
        sdk.post("/api/ingest", json=content, headers={"Content-Encoding": "gzip"}),
        sdk.post("/api/ingest", json=content, headers=wrong),
        sdk.post(f"/api/ingest?onError={CANARY}", json=content),
        sdk.get(f"/api/metrics?range={CANARY}", headers=wrong),
        sdk.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}),
        sdk.post("/api/internal/pg-sync", json=content, headers={"x-svc-signature": CANARY}),
        sdk.get(f"/api/badge/experiment/{CANARY}?token={CANARY}&label={CANARY}"),
        sdk.get(f"/{CANARY}", headers={"Cookie": f"runtally_session={CANARY}", "Referer": f"http://x/{CANARY}"}),
        sdk.post("/sign-in", data={"key": CANARY}),
        sdk.get("/api/health", headers={"X-Request-Id": f"not harmless {CANARY}"}),
    ]
    for broken in BROKEN:
        send_bytes(logged, f"{broken}\r\n\r\n".encode())
    hang_up_early(logged)

    assert {response.status_code for response in sent} >= {200, 400, 401, 404, 415, 422}
    assert len([log.of(response) for response in sent]) == len(sent)
    until(lambda: sum(line["event"].startswith("Invalid HTTP request") for line in log.lines) == len(BROKEN))
    assert CANARY not in log.text
    assert INGEST_KEY not in log.text


def test_a_level_above_info_leaves_requests_out(database_url: str, tmp_path: Path) -> None:
    quiet = Log(tmp_path / "quiet.log")
    with running_server(database_url, log=quiet.path, LOG_LEVEL="WARNING", LOG_FORMAT="json") as server:
        assert httpx.get(f"{server.url}/api/health/live", timeout=PATIENCE_SECONDS).status_code == 200

    assert quiet.text == ""


def send_bytes(server: Server, sent: bytes) -> bytes:
    """To the server's port, as they are; the first bytes of its answer."""
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60) as connection:
        connection.sendall(sent)
        return connection.recv(1024)


def hang_up_early(server: Server) -> None:
    """A client that goes away in the middle of its body."""
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60) as connection:
        head = f"POST /api/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {INGEST_KEY}\r\nContent-Length: 9999\r\n"
        connection.sendall(f'{head}Content-Type: application/json\r\n\r\n{{"projectId": "{CANARY}"'.encode())

"""Errors that the framework finds have the contract's shape as well; under /api nothing is ever HTML."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from runtally.settings import Settings
from tests.assertions import assert_error
from tests.serving import Server

API_PATHS = ("/api/ingest", "/api/metrics", "/api/health", "/api/health/live", "/api/openapi.json", "/metrics")
CANARY = "canary-41aa"


def exchange(server: Server, target: bytes, *, method: bytes = b"GET", head: bytes = b"") -> httpx.Response:
    """A request with a target that no client library would send."""
    return answer_to(
        server, method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + head + b"\r\n"
    )


def answer_to(server: Server, sent: bytes) -> httpx.Response:
    """What comes back for these bytes, until the server hangs up."""
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    start, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = start.decode("latin1").split("\r\n")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


@pytest.mark.parametrize("path", [f"{path}/" for path in API_PATHS if path != "/metrics"] + ["/api/", "/api//health"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_that_is_almost_right_is_404_and_no_redirect(
    stranger: httpx.AsyncClient, method: str, path: str
) -> None:
    assert_error(await stranger.request(method, path), 404, "not_found")


@pytest.mark.parametrize("path", API_PATHS)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
async def test_a_method_that_a_path_has_not_is_405_with_those_it_has(
    stranger: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await stranger.request(method, path)

    assert_error(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].split(", ")) == ({"POST"} if path == "/api/ingest" else {"GET", "HEAD"})


@pytest.mark.parametrize("path", ["/api/health", "/api/health/live", "/api/openapi.json"])
async def test_head_is_get_without_the_body(stranger: httpx.AsyncClient, path: str) -> None:
    head, get = await stranger.head(path), await stranger.get(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


async def test_head_where_there_is_no_get_is_405(stranger: httpx.AsyncClient) -> None:
    response = await stranger.head("/api/ingest")

    assert (response.status_code, response.content) == (405, b"")
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "target", [b"/api/%", b"/api/%zz", b"/api/%ff%fe", b"/api/a%00b", b"/api/%2e%2e/x", b"/api/" + b"a" * 30_000]
)
def test_a_path_that_is_malformed_or_long_is_404(server: Server, target: bytes) -> None:
    assert_error(exchange(server, target), 404, "not_found")


def test_a_malformed_query_is_a_wrong_value(dev_server: Server) -> None:
    assert_error(exchange(dev_server, b"/api/metrics?range=%ff%zz"), 400, "invalid_range")


@pytest.mark.parametrize("target", [b"/api/" + b"a" * 70_000, b"/api/metrics?projectId=" + b"a" * 70_000])
def test_a_target_that_is_too_long_is_414(server: Server, target: bytes) -> None:
    assert_error(exchange(server, target), 414, "target_too_long")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"\xff\xfe", "invalid_key"),
        (b"%00", "invalid_key"),
        (b"'; --", "invalid_key"),
        # A header that is too long is not looked at.
        (b"a" * 100_000, "missing_key"),
    ],
)
def test_a_key_of_strange_or_many_bytes_is_no_right_one(server: Server, value: bytes, code: str) -> None:
    for method, target in ((b"POST", b"/api/ingest"), (b"GET", b"/api/metrics")):
        head = b"Authorization: Bearer " + value + b"\r\nContent-Length: 0\r\n"

        assert_error(exchange(server, target, method=method, head=head), 401, code)


def test_many_and_large_headers_do_no_harm(server: Server) -> None:
    many = b"".join(b"X-%d: y\r\n" % number for number in range(1000)) + b"X: " + b"a" * 100_000 + b"\r\n"

    assert exchange(server, b"/api/health", head=many).status_code == 200


@pytest.mark.parametrize(
    "host", [b"a" * 64, b"a..b", b".", b"a b", b"user@localhost", b"localhost, b", b"\xe4", b"[::1"]
)
@pytest.mark.parametrize("path", [b"/", b"/api/health"])
def test_a_host_that_no_server_can_have_is_refused(server: Server, path: bytes, host: bytes) -> None:
    assert_error(answer_to(server, b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (path, host)), 400, "bad_request")


@pytest.mark.parametrize(
    "host", [b"", b"localhost.", b"localhost \t", b"127.0.0.1:1", b"[::1]:8000", b"of_compose-1.x"]
)
def test_a_host_that_a_server_can_have_is_answered(server: Server, host: bytes) -> None:
    sent = b"GET /api/health HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host

    assert answer_to(server, sent).status_code == 200


def test_more_headers_than_any_client_sends_are_refused(server: Server) -> None:
    assert_error(exchange(server, b"/api/health", head=b"a:\r\n" * 3_000), 431, "head_too_large")


def test_a_body_with_too_large_a_length_is_refused_before_it_is_read(server: Server) -> None:
    too_large = Settings.model_fields["max_body_bytes"].default + 1
    key = f"Authorization: Bearer {server.ingest_key}\r\nContent-Type: application/json\r\n"

    response = exchange(server, b"/api/ingest", method=b"POST", head=f"{key}Content-Length: {too_large}\r\n".encode())

    assert_error(response, 413, "body_too_large")


@pytest.mark.parametrize("type_", ["text/plain", "multipart/form-data; boundary=x", CANARY, ""])
async def test_a_body_of_another_type_is_415(client: httpx.AsyncClient, type_: str) -> None:
    response = await client.post("/api/ingest", content=b"{}", headers={"Content-Type": type_})

    assert_error(response, 415, "unsupported_media_type", never=[CANARY])


async def test_an_aggregate_that_is_neither_yes_nor_no_is_refused(
    stranger: httpx.AsyncClient, metrics_key: str
) -> None:
    for value in ("yes", "", "2"):
        response = await stranger.get(
            "/api/metrics", params={"aggregate": value}, headers={"Authorization": f"Bearer {metrics_key}"}
        )

        assert_error(response, 422, "invalid_payload", paths=["aggregate"])


@pytest.mark.parametrize("value", ["0", "false", "False"])
async def test_an_aggregate_of_no_is_as_good_as_none(stranger: httpx.AsyncClient, metrics_key: str, value: str) -> None:
    response = await stranger.get(
        "/api/metrics", params={"aggregate": value}, headers={"Authorization": f"Bearer {metrics_key}"}
    )

    assert response.status_code == 200


POST = b"POST /api/ingest HTTP/1.1\r\nHost: localhost\r\n"
NO_HTTP = {
    "a greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method in two words": b"GE T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: localhost\r\ncanary-41aa\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\0canary-41aa\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two names of the server": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: canary-41aa\r\n\r\n",
    "no name of the server": b"GET / HTTP/1.1\r\n\r\n",
    "a way through to another server": b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a way through to a path": b"CONNECT /canary-41aa HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "a way through to a URL": b"CONNECT http://localhost/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length that is none": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    # What could smuggle a request past a proxy.
    "a length and chunks": POST
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_invalid_http_gets_the_usual_error_and_the_connection_is_closed(server: Server, sent: bytes) -> None:
    response = answer_to(server, sent)

    assert_error(response, 400, "bad_request", never=[CANARY])
    assert response.headers["Connection"] == "close"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    assert int(response.headers["Content-Length"]) == len(response.content)

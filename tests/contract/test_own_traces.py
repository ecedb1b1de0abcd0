"""The service's own traces, received by a server that speaks OTLP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtally.settings import Settings
from tests.ops.processes import until
from tests.serving import PATIENCE_SECONDS, Postgres, running_server
from webapp.server.spans import is_own

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A collector's address, and what arrived there: paths and bodies."""
    arrived: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # The library's interface.
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", arrived
        server.shutdown()


def test_each_request_is_a_span_in_the_trace_of_its_caller_but_none_that_comes_by_otlp(postgres: Postgres) -> None:
    with collector() as (endpoint, arrived):
        with running_server(
            postgres.create_seeded("traced"), OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_BSP_SCHEDULE_DELAY="100"
        ) as server:
            with httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
                client.post("/v1/traces", content=b"", headers={"Content-Type": "application/x-protobuf"})
                client.get("/api/metrics", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            until(lambda: any(b"/api/metrics" in body for _, body in arrived))
        spans = [
            span
            for path, body in arrived
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    names = {span.name for span in spans}
    [asked] = [span for span in spans if span.name == "GET /api/metrics"]
    attributes = {one.key: one.value for one in asked.attributes}
    assert not any("/v1/" in name for name in names)
    assert (asked.trace_id.hex(), asked.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes["http.response.status_code"].int_value == 401
    assert asked.end_time_unix_nano - asked.start_time_unix_nano > 0


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8000/v1/traces", True),
        ("https://runtally.example.com", True),
        ("http://localhost:4318", False),
        ("https://collector.example.com", False),
    ],
)
def test_an_address_of_the_service_itself_is_known(endpoint: str, *, expected: bool) -> None:
    settings = Settings(port=8000, public_url="https://runtally.example.com")

    assert is_own(endpoint, settings) is expected

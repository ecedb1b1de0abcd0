"""What tests of OTLP over HTTP share: bodies, and what is expected of answers."""

from base64 import b64encode
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess

from runtally.db.database import Database
from tests.serving import INGEST_KEY
from tests.spans import SPAN, TRACE, Json, make_request, make_span
from tests.stored import stored_runs

PATHS = ("/v1/traces", "/api/otlp/v1/traces", "/api/public/otel/v1/traces")
JSON, PROTOBUF = {"Content-Type": "application/json"}, {"Content-Type": "application/x-protobuf"}
RUN = f"{TRACE}-{SPAN}"


def request_for(project_id: str, *spans: Json, **resource: str) -> Json:
    return make_request(*(spans or (make_span(),)), resource={"service.name": project_id, **resource})


def spans_of(number: int, **fields: Any) -> list[Json]:  # noqa: ANN401  # Fields of a span.
    return [make_span(spanId=f"{place:016x}", **fields) for place in range(1, number + 1)]


async def ids_of(database: Database, project_id: str) -> list[str]:
    return [run["id"] for run in await stored_runs(database, project_id)]


def basic(user: str, key: str = INGEST_KEY) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{key}".encode()).decode()}


def status_of(response: httpx.Response) -> tuple[int, str]:
    """Code and message of a google.rpc.Status, whichever way it is encoded."""
    if response.headers["content-type"] == "application/json":
        told = response.json()
        assert set(told) == {"code", "message"}
        return told["code"], told["message"]
    assert response.headers["content-type"] == "application/x-protobuf"
    # The same fields by the same numbers.
    status = ExportTracePartialSuccess.FromString(response.content)
    return status.rejected_spans, status.error_message


def assert_refused(response: httpx.Response, status: int, code: int, *, says: str = "") -> None:
    assert response.status_code == status, response.text
    told, message = status_of(response)
    assert told == code
    assert message.endswith(".")
    assert says in message
    assert response.headers["x-request-id"]

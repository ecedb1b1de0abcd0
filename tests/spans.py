"""Spans, log records and requests of OTLP, as dicts in its JSON; and the same in protobuf, made by opentelemetry-proto."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtally.otlp.values import Value

Json = dict[str, Any]
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SECOND = 1_000_000_000
START = 1_781_524_800 * SECOND  # 2026-06-15T12:00:00Z


def make_value(value: Value | None) -> Json:
    """An AnyValue."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [make_value(item) for item in value]}}


def make_attributes(attributes: Mapping[str, Value | None]) -> list[Json]:
    return [{"key": key, "value": make_value(value)} for key, value in attributes.items()]


def chat(**more: Value) -> dict[str, Value]:
    """The attributes of a call by the current conventions; a double underscore in a name is a dot."""
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "acme-large",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 500,
    }
    return attributes | {name.replace("__", "."): value for name, value in more.items()}


def make_span(attributes: Mapping[str, Value | None] | None = None, **fields: Any) -> Json:  # noqa: ANN401  # Fields of a span.
    """A span of a call of two seconds; a field that is None is left out."""
    span = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "chat acme-large",
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 2 * SECOND),
        "attributes": make_attributes(chat() if attributes is None else attributes),
        **fields,
    }
    return {name: value for name, value in span.items() if value is not None}


def make_request(*spans: Json, resource: Mapping[str, Value] | None = None, scope: str = "tests") -> Json:
    """A request of spans of one resource and scope."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": make_attributes({"service.name": "shop"} if resource is None else resource)},
                "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}],
            }
        ]
    }


def joined(*requests: Json) -> Json:
    """What several requests hold, in one."""
    return {"resourceSpans": [group for request in requests for group in request["resourceSpans"]]}


def make_logs(*records: Json, resource: Mapping[str, Value] | None = None, scope: str = "tests") -> Json:
    """A request of log records of one resource and scope."""
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": make_attributes(resource or {})},
                "scopeLogs": [{"scope": {"name": scope}, "logRecords": list(records)}],
            }
        ]
    }


def make_sum(name: str, *points: Json, delta: bool = False) -> Json:
    """A metric that is a sum."""
    return {
        "name": name,
        "sum": {"dataPoints": list(points), "aggregationTemporality": 1 if delta else 2, "isMonotonic": True},
    }


def make_point(
    value: float, attributes: Mapping[str, Value], *, start: int = START, time: int = START + SECOND
) -> Json:
    """A point of a sum."""
    times = {"startTimeUnixNano": str(start), "timeUnixNano": str(time)}
    return {"attributes": make_attributes(attributes), **times, "asDouble": value}


def make_metrics(*metrics: Json, resource: Mapping[str, Value] | None = None, scope: str = "tests") -> Json:
    """A request of metrics of one resource and scope."""
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": make_attributes(resource or {})},
                "scopeMetrics": [{"scope": {"name": scope}, "metrics": list(metrics)}],
            }
        ]
    }


_REQUESTS: dict[str, type[Any]] = {
    "resourceSpans": ExportTraceServiceRequest,
    "resourceLogs": ExportLogsServiceRequest,
    "resourceMetrics": ExportMetricsServiceRequest,
}


def as_json(request: Json) -> bytes:
    return msgspec.json.encode(request)


def as_protobuf(request: Json) -> bytes:
    """The request as an exporter of protobuf sends it."""
    message = next(kind() for field, kind in _REQUESTS.items() if field in request)
    ParseDict(_with_base64_ids(request), message)
    return bytes(message.SerializeToString())


def _with_base64_ids(item: Any) -> Any:  # noqa: ANN401  # Any JSON value.
    """Protobuf's own JSON writes bytes in base64, OTLP's in hex."""
    if isinstance(item, list):
        return [_with_base64_ids(each) for each in item]
    if not isinstance(item, dict):
        return item
    return {
        key: b64encode(bytes.fromhex(value)).decode()
        if key in {"traceId", "spanId", "parentSpanId"}
        else _with_base64_ids(value)
        for key, value in item.items()
    }

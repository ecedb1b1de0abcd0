"""Read OTLP in JSON: the same spans and log records as `protobuf` reads, by the mapping of the OTLP specification.

Ids are hex in either case, 64-bit numbers may be strings, enums may be names. A value that is not wanted is never
decoded.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType, defstruct

from runtally.otlp.values import (
    EXCEPTION,
    EXCEPTION_TYPE,
    MAX_FIELDS,
    MAX_GROUPS,
    MAX_ITEMS,
    NAMES,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    Attributes,
    LogRecord,
    Malformed,
    Metric,
    Point,
    Resource,
    Rules,
    Scalar,
    Span,
    Value,
    Wanted,
    digest_of,
)

_STATUS_ERROR = {2, "2", "STATUS_CODE_ERROR"}
_DELTA = {1, "1", "AGGREGATION_TEMPORALITY_DELTA"}
_EXCEPTION = msgspec.json.encode(EXCEPTION)
_OF_EVENT = Wanted(frozenset({EXCEPTION_TYPE}))
# 2^64 has as many digits; a longer text is no number of nanoseconds.
_MAX_DIGITS = 20
_INT64, _UINT64 = 2**63, 2**64
# Decoding all at once takes one pass over the content instead of two, but nothing else is answered meanwhile: so many
# objects take some milliseconds.
_OBJECTS_AT_ONCE = 20_000
_Number = int | float | str | None
_T = TypeVar("_T")
_Record = TypeVar("_Record", Span, LogRecord, Metric)


class _KeyValue(msgspec.Struct, gc=False):
    key: str | None = None
    value: Raw | UnsetType = UNSET


class _ArrayValue(msgspec.Struct, gc=False):
    values: list[Raw] | None = None


class _AnyValue(msgspec.Struct, rename="camel", gc=False):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: _Number = None
    double_value: _Number = None
    array_value: _ArrayValue | None = None


class _Event(msgspec.Struct, gc=False):
    name: Raw | UnsetType = UNSET
    attributes: list[_KeyValue] | None = None


class _Status(msgspec.Struct, gc=False):
    code: int | str | None = None


class _Span(msgspec.Struct, rename="camel", gc=False):
    trace_id: Raw | UnsetType = UNSET
    span_id: Raw | UnsetType = UNSET
    parent_span_id: Raw | UnsetType = UNSET
    name: Raw | UnsetType = UNSET
    start_time_unix_nano: _Number = None
    end_time_unix_nano: _Number = None
    attributes: list[_KeyValue] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _LogRecord(msgspec.Struct, rename="camel", gc=False):
    time_unix_nano: _Number = None
    observed_time_unix_nano: _Number = None
    event_name: Raw | UnsetType = UNSET
    body: Raw | UnsetType = UNSET
    attributes: list[_KeyValue] | None = None


class _Point(msgspec.Struct, rename="camel", gc=False):
    attributes: list[_KeyValue] | None = None
    start_time_unix_nano: _Number = None
    time_unix_nano: _Number = None
    as_double: _Number = None
    as_int: _Number = None


class _Sum(msgspec.Struct, rename="camel", gc=False):
    data_points: list[_Point | None] | None = None
    aggregation_temporality: int | str | None = None


class _Metric(msgspec.Struct, gc=False):
    name: str | None = None
    sum: Raw | UnsetType = UNSET


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_KeyValue] | None = None


class _Scope(msgspec.Struct, gc=False):
    name: str | None = None
    version: str | None = None


_NO_SCOPE = _Scope()


def _request(groups: str, scopes: str, items: str, item: object) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a request whose resources, scopes and records have these names."""
    records = ("items", list[item] | None, None)  # type: ignore[valid-type]  # A type that is chosen here.
    scoped = defstruct("_Scoped", [("scope", _Scope | None, None), records], rename={"items": items}, gc=False)
    within = ("scopes", list[scoped | None] | None, None)  # type: ignore[valid-type]
    group = defstruct("_Group", [("resource", Raw | UnsetType, UNSET), within], rename={"scopes": scopes}, gc=False)
    whole = ("groups", list[group | None] | None, None)  # type: ignore[valid-type]
    return msgspec.json.Decoder(defstruct("_Request", [whole], rename={"groups": groups}, gc=False))


_traces = _request("resourceSpans", "scopeSpans", "spans", _Span | None)
_raw_traces = _request("resourceSpans", "scopeSpans", "spans", Raw)
_logs = _request("resourceLogs", "scopeLogs", "logRecords", Raw)
_metrics = _request("resourceMetrics", "scopeMetrics", "metrics", _Metric | None)
_sum = msgspec.json.Decoder(_Sum | None)
_resource = msgspec.json.Decoder(_Resource | None)
_span = msgspec.json.Decoder(_Span | None)
_log_record = msgspec.json.Decoder(_LogRecord | None)
_any = msgspec.json.Decoder(_AnyValue | None)
_text = msgspec.json.Decoder(str | None)
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_spans(body: bytes, rules: Rules) -> Iterator[Span]:
    """Yield the spans of a request, in their order. Raises `Malformed` on the way."""
    return _records(body, _traces if body.count(b"{") <= _OBJECTS_AT_ONCE else _raw_traces, _span, rules, _read_span)


def read_logs(body: bytes, rules: Rules) -> Iterator[LogRecord]:
    """Yield the log records of a request, in their order. Raises `Malformed` on the way."""
    return _records(body, _logs, _log_record, rules, _read_log_record)


def read_metrics(body: bytes, rules: Rules) -> Iterator[Metric]:
    """Yield the metrics of a request, in their order. Raises `Malformed` on the way."""
    return _records(body, _metrics, None, rules, _read_metric)


def _records(
    body: bytes,
    request: msgspec.json.Decoder[Any],
    record: msgspec.json.Decoder[Any] | None,
    rules: Rules,
    read: Callable[[Any, Resource, _Scope, Rules], _Record],
) -> Iterator[_Record]:
    """Yield what a request has; records that were not decoded with it are decoded one after the other."""
    resources = _Resources(rules.resource)
    try:
        for group in _bounded(request.decode(body).groups, MAX_GROUPS):
            if group is None:
                continue
            resource = resources.read(group.resource)
            for scoped in _bounded(group.scopes, MAX_GROUPS):
                if scoped is None:
                    continue
                scope = scoped.scope or _NO_SCOPE
                for item in _bounded(scoped.items, MAX_GROUPS):
                    sent = record.decode(item) if record and isinstance(item, Raw) else item
                    if sent is not None:
                        yield read(sent, resource, scope, rules)
    except _WRONG:
        raise Malformed from None


def _bounded(items: Sequence[_T] | None, most: int) -> Sequence[_T]:
    if items is None:
        return ()
    if len(items) > most:
        raise Malformed
    return items


class _Resources:
    """The resources of a request; equal ones are read once."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._known: dict[bytes, Resource] = {}

    def read(self, sent: Raw | UnsetType) -> Resource:
        raw = b"" if isinstance(sent, UnsetType) else bytes(sent)
        known = self._known.get(raw)
        if known is None:
            decoded = _resource.decode(raw) if raw else None
            attributes = _attributes(decoded.attributes, self._wanted) if decoded else {}
            known = self._known[raw] = Resource(attributes, digest_of(raw))
        return known


def _read_span(sent: _Span, resource: Resource, scope: _Scope, rules: Rules) -> Span:
    span = Span(resource, scope.name or "", scope_version=scope.version or "")
    span.trace_id = _id(sent.trace_id, TRACE_ID_BYTES)
    span.span_id = _id(sent.span_id, SPAN_ID_BYTES)
    span.parent_id = _id(sent.parent_span_id, SPAN_ID_BYTES)
    span.name = "" if sent.name is UNSET else NAMES.get(bytes(sent.name).strip(b'"').rpartition(b".")[2], "")
    span.start, span.end = _nanoseconds(sent.start_time_unix_nano), _nanoseconds(sent.end_time_unix_nano)
    span.has_failed = sent.status is not None and sent.status.code in _STATUS_ERROR
    for event in _bounded(sent.events, MAX_FIELDS):
        if event is not None and event.name is not UNSET and bytes(event.name) == _EXCEPTION:
            span.has_failed = True
            kind = _attributes(event.attributes, _OF_EVENT).get(EXCEPTION_TYPE)
            if isinstance(kind, str) and kind:
                span.exception_type = kind
    span.attributes = _attributes(sent.attributes, rules.record)
    return span


def _read_log_record(sent: _LogRecord, resource: Resource, scope: _Scope, rules: Rules) -> LogRecord:
    record = LogRecord(
        resource, scope.name or "", _nanoseconds(sent.time_unix_nano), _nanoseconds(sent.observed_time_unix_nano)
    )
    record.attributes = _attributes(sent.attributes, rules.record)
    # A longer body is none of the wanted ones, and is not decoded.
    longest = max(map(len, rules.bodies), default=0) + len('{"stringValue":""}') + 2
    if not isinstance(sent.body, UnsetType) and len(bytes(sent.body)) <= longest:
        record.body = _wanted_text(_any_value(sent.body), rules)
    if not isinstance(sent.event_name, UnsetType) and len(bytes(sent.event_name)) <= longest:
        record.event_name = _wanted_text(_text.decode(sent.event_name), rules)
    return record


def _read_metric(sent: _Metric, resource: Resource, scope: _Scope, rules: Rules) -> Metric:
    metric = Metric(resource, scope.name or "")
    if sent.name is None or sent.name not in rules.bodies:
        return metric
    metric.name = sent.name
    total = None if isinstance(sent.sum, UnsetType) else _sum.decode(sent.sum)
    if total is not None:
        metric.is_delta = total.aggregation_temporality in _DELTA
        metric.points = [_read_point(point, rules) for point in _bounded(total.data_points, MAX_FIELDS) if point]
    return metric


def _read_point(sent: _Point, rules: Rules) -> Point:
    value = sent.as_double if sent.as_double is not None else _whole(sent.as_int) if sent.as_int is not None else 0
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise Malformed from None
    times = _nanoseconds(sent.start_time_unix_nano), _nanoseconds(sent.time_unix_nano)
    return Point(_attributes(sent.attributes, rules.record), *times, number)


def _wanted_text(value: Value | None, rules: Rules) -> str:
    return value if isinstance(value, str) and value in rules.bodies else ""


def _id(sent: Raw | UnsetType, size: int) -> bytes:
    """Return the id; empty if it is invalid, as one of zeros alone is."""
    if isinstance(sent, UnsetType):
        return b""
    text = bytes(sent)
    if len(text) != 2 * size + 2:
        return b""
    try:
        raw = bytes.fromhex(text[1:-1].decode("ascii"))
    except ValueError:
        return b""
    return raw if len(raw) == size and any(raw) else b""


def _nanoseconds(sent: _Number) -> int:
    if sent is None or sent == "":
        return 0
    number = _whole(sent)
    if not 0 <= number < _UINT64:
        raise Malformed
    return number


def _whole(sent: float | str) -> int:
    try:
        if isinstance(sent, str) and len(sent) <= _MAX_DIGITS and sent.isascii():
            return int(sent)
        if not isinstance(sent, str) and sent == int(sent):
            return int(sent)
    except (ValueError, OverflowError):
        pass
    raise Malformed


def _attributes(sent: Sequence[_KeyValue] | None, wanted: Wanted) -> Attributes:
    attributes: Attributes = {}
    for item in _bounded(sent, MAX_FIELDS):
        key = item.key
        if key is None or (key not in wanted.names and not key.startswith(wanted.prefixes)):
            continue
        value = None if isinstance(item.value, UnsetType) else _any_value(item.value)
        if value is not None:
            attributes[key] = value
    return attributes


def _any_value(sent: Raw) -> Value | None:
    """Return a scalar or a list of scalars; None for any other value."""
    value = _any.decode(sent)
    if value is None:
        return None
    if value.array_value is not None:
        items = (_any.decode(item) for item in (value.array_value.values or ())[:MAX_ITEMS])
        return [scalar for item in items if item is not None and (scalar := _scalar(item)) is not None]
    return _scalar(value)


def _scalar(value: _AnyValue) -> Scalar | None:
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        number = _whole(value.int_value)
        if not -_INT64 <= number < _INT64:
            raise Malformed
        return number
    if value.double_value is not None:
        try:
            return float(value.double_value)
        except ValueError:
            raise Malformed from None
    return value.bool_value

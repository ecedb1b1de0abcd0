"""Read OTLP in protobuf: a reader of the wire format that decodes the few fields of a run and skips all others.

The field numbers are those of opentelemetry-proto. Unknown fields are skipped by their wire type. As in protobuf, the
last value of a repeated scalar counts, and repeated messages are merged.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  # An exception, as its name should say.
from typing import TypeVar

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
from runtally.otlp.wire import BYTES, FIXED64, MAX_TAG, MIN_TAG, MORE, UINT64, VARINT, fields, group, skip, varint

_REQUEST_RESOURCE = _KEY = _ITEM = 1 << 3 | BYTES
_KEY_VALUE = 2 << 3 | BYTES
_RESOURCE_ATTRIBUTE = _SCOPE_NAME = 1 << 3 | BYTES
_SCOPE_VERSION = 2 << 3 | BYTES
_ANY_STRING, _ANY_BOOL, _ANY_INT = 1 << 3 | BYTES, 2 << 3 | VARINT, 3 << 3 | VARINT
_ANY_DOUBLE, _ANY_ARRAY = 4 << 3 | FIXED64, 5 << 3 | BYTES
_ANY_OTHER = frozenset({6 << 3 | BYTES, 7 << 3 | BYTES, 8 << 3 | VARINT})
_SPAN_TRACE, _SPAN_ID, _SPAN_PARENT = 1 << 3 | BYTES, 2 << 3 | BYTES, 4 << 3 | BYTES
_SPAN_NAME, _SPAN_START, _SPAN_END = 5 << 3 | BYTES, 7 << 3 | FIXED64, 8 << 3 | FIXED64
_SPAN_ATTRIBUTE, _SPAN_EVENT, _SPAN_STATUS = 9 << 3 | BYTES, 11 << 3 | BYTES, 15 << 3 | BYTES
_EVENT_NAME, _EVENT_ATTRIBUTE = 2 << 3 | BYTES, 3 << 3 | BYTES
_STATUS_CODE = 3 << 3 | VARINT
_LOG_TIME, _LOG_OBSERVED = 1 << 3 | FIXED64, 11 << 3 | FIXED64
_LOG_BODY, _LOG_ATTRIBUTE, _LOG_EVENT_NAME = 5 << 3 | BYTES, 6 << 3 | BYTES, 12 << 3 | BYTES
_METRIC_NAME, _METRIC_SUM, _SUM_POINT, _SUM_TEMPORALITY = (
    1 << 3 | BYTES,
    7 << 3 | BYTES,
    1 << 3 | BYTES,
    2 << 3 | VARINT,
)
_POINT_START, _POINT_TIME, _POINT_DOUBLE = 2 << 3 | FIXED64, 3 << 3 | FIXED64, 4 << 3 | FIXED64
_POINT_INT, _POINT_ATTRIBUTE = 6 << 3 | FIXED64, 7 << 3 | BYTES

_STATUS_ERROR, _DELTA = 2, 1
_INT64_MAX = 2**63 - 1
_uint64 = Struct("<Q").unpack_from
_int64, _double = Struct("<q").unpack_from, Struct("<d").unpack_from
_EXCEPTION = EXCEPTION.encode()
_OF_EVENT = Wanted(frozenset({EXCEPTION_TYPE}))
# The longest attribute that is remembered within a request, and how many are, as many records repeat the same ones.
_SHORT, _MAX_KNOWN = 128, 4_096
_ZEROS = {size: bytes(size) for size in (TRACE_ID_BYTES, SPAN_ID_BYTES)}
_UNREAD: tuple[str, Value] = ("", "")
# The fewest bytes of a key and a value, each with its tag and length.
_LEAST = 4
# Errors of reading beyond the end, or text that is not UTF-8.
_WRONG = (IndexError, StructError, UnicodeDecodeError)

_Record = TypeVar("_Record", Span, LogRecord, Metric)


def read_spans(body: bytes, rules: Rules) -> Iterator[Span]:
    """Yield the spans of an ExportTraceServiceRequest, in their order. Raises `Malformed` on the way."""
    return _records(body, rules, _span)


def read_logs(body: bytes, rules: Rules) -> Iterator[LogRecord]:
    """Yield the records of an ExportLogsServiceRequest, in their order. Raises `Malformed` on the way."""
    return _records(body, rules, _log_record)


def read_metrics(body: bytes, rules: Rules) -> Iterator[Metric]:
    """Yield the metrics of an ExportMetricsServiceRequest, in their order. Raises `Malformed` on the way."""
    return _records(body, rules, _metric)


def _records(
    body: bytes, rules: Rules, read: Callable[[bytes, int, int, Resource, str, "_Attributes"], _Record]
) -> Iterator[_Record]:
    resources: dict[bytes, Resource] = {}
    attributes = _Attributes(rules)
    groups = 0
    try:
        for tag, begin, end in fields(body, 0, len(body), most=MAX_GROUPS):
            if tag == _REQUEST_RESOURCE:
                raw, scopes = group(body, begin, end)
                resource = resources.get(raw)
                if resource is None:
                    resource = resources[raw] = Resource(_resource_attributes(raw, rules.resource), digest_of(raw))
                groups += len(scopes)
                if groups > MAX_GROUPS:
                    raise Malformed
                for scope_begin, scope_end in scopes:
                    scope, records = group(body, scope_begin, scope_end)
                    name, attributes.scope_version = _scope(scope)
                    for record_begin, record_end in records:
                        yield read(body, record_begin, record_end, resource, name, attributes)
    except _WRONG:
        raise Malformed from None


class _Attributes:
    """Reads attributes of records. Most short ones are repeated in many records of a request, and are read once."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.known: dict[bytes, tuple[str, Value] | None] = {}
        self.scope_version = ""
        """The version of the scope whose records are being read."""
        self._wanted = rules.record

    def read(self, body: bytes, pos: int, end: int) -> tuple[str, Value] | None:
        """Read name and value; None unless the attribute is wanted and has a value that is kept."""
        is_long = end - pos > _SHORT
        found = self._read_usual(body, pos, end, is_long=is_long) if end - pos >= _LEAST else _UNREAD
        if found is _UNREAD:
            found = _attribute(body, pos, end, self._wanted)
        if not is_long and len(self.known) < _MAX_KNOWN:
            self.known[body[pos:end]] = found
        return found

    def _read_usual(self, body: bytes, pos: int, end: int, *, is_long: bool) -> tuple[str, Value] | None:
        """Read an attribute in the usual encoding: first the key, with its length in one byte, then the value.

        `_UNREAD` for any other. Long values are mostly content: of one that is not wanted nothing is looked at.
        """
        value = pos + 2 + body[pos + 1]
        if body[pos] != _KEY or body[pos + 1] >= MORE or value + 2 > end or body[value] != _KEY_VALUE:
            return _UNREAD
        key, size = body[pos + 2 : value], body[value + 1]
        is_whole = size < MORE and value + 2 + size == end
        name = self._wanted.keys.get(key)
        if name is None:
            is_skipped = (is_long or is_whole) and not key.startswith(self._wanted.key_prefixes)
            return None if is_skipped else _UNREAD
        found = _usual_value(body, value + 2, end) if is_whole else None
        return _UNREAD if found is None else (name, found)


def _resource_attributes(raw: bytes, wanted: Wanted) -> Attributes:
    attributes: Attributes = {}
    for tag, begin, stop in fields(raw, 0, len(raw)):
        if tag == _RESOURCE_ATTRIBUTE and (found := _attribute(raw, begin, stop, wanted)) is not None:
            attributes[found[0]] = found[1]
    return attributes


def _scope(raw: bytes) -> tuple[str, str]:
    """Return the name and the version of a scope."""
    name = version = b""
    for tag, begin, stop in fields(raw, 0, len(raw)):
        if tag == _SCOPE_NAME:
            name = raw[begin:stop]
        elif tag == _SCOPE_VERSION:
            version = raw[begin:stop]
    return name.decode(), version.decode(errors="replace")


def _span(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # One loop over the fields: calls would take longer than what they do.
    body: bytes, pos: int, end: int, resource: Resource, scope: str, reader: _Attributes
) -> Span:
    span = Span(resource, scope, scope_version=reader.scope_version)
    attributes: Attributes = {}
    known, read = reader.known, reader.read
    for _ in range(MAX_FIELDS):
        if pos >= end:
            break
        tag = body[pos]
        pos += 1
        if tag >= MORE:
            tag, pos = varint(body, pos - 1)
        if tag & 7 == BYTES:
            size = body[pos]
            pos += 1
            if size >= MORE:
                size, pos = varint(body, pos - 1)
            stop = pos + size
            if stop > end:
                raise Malformed
            if tag == _SPAN_ATTRIBUTE:
                found = known.get(body[pos:stop], _UNREAD) if size <= _SHORT else _UNREAD
                if found is _UNREAD:
                    found = read(body, pos, stop)
                if found is not None:
                    attributes[found[0]] = found[1]
            elif tag == _SPAN_TRACE:
                span.trace_id = _id(body[pos:stop], TRACE_ID_BYTES)
            elif tag == _SPAN_ID:
                span.span_id = _id(body[pos:stop], SPAN_ID_BYTES)
            elif tag == _SPAN_PARENT:
                span.parent_id = _id(body[pos:stop], SPAN_ID_BYTES)
            elif tag == _SPAN_NAME:
                span.name = NAMES.get(body[pos:stop].rpartition(b".")[2], "")
            elif tag == _SPAN_EVENT:
                if body.find(_EXCEPTION, pos, stop) >= 0:
                    _read_event(body, pos, stop, span)
            elif tag == _SPAN_STATUS:
                _read_status(body, pos, stop, span)
            elif tag < MIN_TAG or tag > MAX_TAG:
                raise Malformed
            pos = stop
        elif tag == _SPAN_START:
            span.start = _uint64(body, pos)[0]
            pos += 8
        elif tag == _SPAN_END:
            span.end = _uint64(body, pos)[0]
            pos += 8
        elif tag < MIN_TAG or tag > MAX_TAG:
            raise Malformed
        else:
            pos = skip(body, tag, pos)
    if pos != end:
        raise Malformed
    span.attributes = attributes
    return span


def _id(raw: bytes, size: int) -> bytes:
    """Return the id; empty if it is invalid, as one of zeros alone is."""
    return raw if len(raw) == size and raw != _ZEROS[size] else b""


def _read_status(body: bytes, pos: int, end: int, span: Span) -> None:
    for tag, begin, _ in fields(body, pos, end):
        if tag == _STATUS_CODE:
            span.has_failed = span.has_failed or varint(body, begin)[0] == _STATUS_ERROR


def _read_event(body: bytes, pos: int, end: int, span: Span) -> None:
    """Read an exception's type; its message, its stack trace and all other events are not decoded."""
    name, kind = b"", ""
    for tag, begin, stop in fields(body, pos, end):
        if tag == _EVENT_NAME:
            name = body[begin:stop]
        elif tag == _EVENT_ATTRIBUTE and (found := _attribute(body, begin, stop, _OF_EVENT)) is not None:
            kind = found[1] if isinstance(found[1], str) else ""
    if name == _EXCEPTION:
        span.has_failed = True
        span.exception_type = kind or span.exception_type


def _attribute(body: bytes, pos: int, end: int, wanted: Wanted) -> tuple[str, Value] | None:
    """Read name and value; None unless the attribute is wanted and has a value that is kept.

    Other values are not decoded.
    """
    key, values = b"", []
    for tag, begin, stop in fields(body, pos, end):
        if tag == _KEY:
            key = body[begin:stop]
        elif tag == _KEY_VALUE:
            values.append((begin, stop))
    name = wanted.keys.get(key)
    if name is None:
        if not key.startswith(wanted.key_prefixes):
            return None
        name = key.decode()
    if len(values) == 1:
        value = _any_value(body, *values[0])
    else:
        merged = b"".join(body[begin:stop] for begin, stop in values)
        value = _any_value(merged, 0, len(merged))
    return None if value is None else (name, value)


def _usual_value(body: bytes, pos: int, end: int) -> str | int | None:
    """Read a value that is one short text or one integer that is not negative; None for any other."""
    if end - pos < len(b"\x0a\x00"):
        return None
    tag, begin = body[pos], pos + 2
    if tag == _ANY_STRING and body[pos + 1] < MORE and begin + body[pos + 1] == end:
        return body[begin:end].decode()
    if tag == _ANY_INT:
        number, stop = varint(body, pos + 1)
        if stop == end and number <= _INT64_MAX:
            return number
    return None


def _any_value(body: bytes, pos: int, end: int) -> Value | None:
    """Read a scalar or a list of scalars; None for any other value."""
    value: Value | None = None
    for tag, begin, stop in fields(body, pos, end):
        if tag == _ANY_ARRAY:
            items = [item for at in _items(body, begin, stop) if (item := _scalar(body, *at)) is not None]
            # An array in two parts is one array.
            value = [*value, *items] if isinstance(value, list) else items
        elif tag in _ANY_OTHER:
            value = None
        elif (scalar := _scalar_in(body, tag, begin, stop)) is not None:
            value = scalar
    return value


def _items(body: bytes, pos: int, end: int) -> Iterator[tuple[int, int]]:
    left = MAX_ITEMS
    for tag, begin, stop in fields(body, pos, end):
        if tag == _ITEM and left:
            left -= 1
            yield begin, stop


def _scalar(body: bytes, pos: int, end: int) -> Scalar | None:
    value: Scalar | None = None
    for tag, begin, stop in fields(body, pos, end):
        if tag == _ANY_ARRAY or tag in _ANY_OTHER:
            value = None
        elif (scalar := _scalar_in(body, tag, begin, stop)) is not None:
            value = scalar
    return value


def _scalar_in(body: bytes, tag: int, begin: int, end: int) -> Scalar | None:
    if tag == _ANY_STRING:
        return body[begin:end].decode()
    if tag == _ANY_INT:
        number = varint(body, begin)[0]
        return number if number <= _INT64_MAX else number - UINT64 - 1
    if tag == _ANY_DOUBLE:
        return float(_double(body, begin)[0])
    return bool(varint(body, begin)[0]) if tag == _ANY_BOOL else None


def _log_record(  # noqa: PLR0913, PLR0917  # As `_span`.
    body: bytes, pos: int, end: int, resource: Resource, scope: str, reader: _Attributes
) -> LogRecord:
    record = LogRecord(resource, scope)
    attributes: Attributes = {}
    bodies = reader.rules.bodies
    longest = max(map(len, bodies), default=0)
    for tag, begin, stop in fields(body, pos, end):
        if tag == _LOG_ATTRIBUTE:
            found = reader.read(body, begin, stop)
            if found is not None:
                attributes[found[0]] = found[1]
        elif tag == _LOG_TIME:
            record.time = _uint64(body, begin)[0]
        elif tag == _LOG_OBSERVED:
            record.observed_time = _uint64(body, begin)[0]
        elif tag == _LOG_EVENT_NAME and stop - begin <= longest:
            text = body[begin:stop].decode()
            record.event_name = text if text in bodies else ""
        elif tag == _LOG_BODY and stop - begin <= longest + 2:
            name = _scalar(body, begin, stop)
            record.body = name if isinstance(name, str) and name in bodies else ""
    record.attributes = attributes
    return record


def _metric(  # noqa: PLR0913, PLR0917  # As `_span`.
    body: bytes, pos: int, end: int, resource: Resource, scope: str, reader: _Attributes
) -> Metric:
    metric = Metric(resource, scope)
    parts = list(fields(body, pos, end))
    name = next((body[begin:stop] for tag, begin, stop in parts if tag == _METRIC_NAME), b"").decode()
    if name not in reader.rules.bodies:
        return metric
    metric.name, points = name, []
    for begin, stop in ((begin, stop) for tag, begin, stop in parts if tag == _METRIC_SUM):
        for tag, at, until in fields(body, begin, stop):
            if tag == _SUM_POINT:
                points.append(_point(body, at, until, reader))
            elif tag == _SUM_TEMPORALITY:
                metric.is_delta = varint(body, at)[0] == _DELTA
    metric.points = points
    return metric


def _point(body: bytes, pos: int, end: int, reader: _Attributes) -> Point:
    attributes: Attributes = {}
    start = time = 0
    value = 0.0
    for tag, begin, stop in fields(body, pos, end):
        if tag == _POINT_ATTRIBUTE and (found := reader.read(body, begin, stop)) is not None:
            attributes[found[0]] = found[1]
        elif tag == _POINT_START:
            start = _uint64(body, begin)[0]
        elif tag == _POINT_TIME:
            time = _uint64(body, begin)[0]
        elif tag == _POINT_DOUBLE:
            value = float(_double(body, begin)[0])
        elif tag == _POINT_INT:
            value = float(_int64(body, begin)[0])
    return Point(attributes, start, time, value)

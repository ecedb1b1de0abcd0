"""The readers of OTLP, against opentelemetry-proto and against each other."""

import struct
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from runtally.otlp import json, protobuf
from runtally.otlp.values import NAMES as SPAN_NAMES
from runtally.otlp.values import LogRecord, Malformed, Rules, Span, Value, Wanted
from tests.spans import SPAN, TRACE, as_json, as_protobuf, make_request, make_span

NAMES = ("wanted", "wanted.too", "model", "unwanted", "free.x", "free.", "x" * 200, "event.name")
WANTED = frozenset({"wanted", "wanted.too", "model", "x" * 200, "event.name"})
RULES = Rules(Wanted(WANTED), Wanted(WANTED, ("free.",)), frozenset({"known.event"}))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.one_of(
    st.just(b""), st.binary(max_size=20), st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8)
)
times = st.integers(0, 2**64 - 1)
scalars = st.one_of(
    st.builds(AnyValue, string_value=texts),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
)
others = st.one_of(
    st.just(AnyValue()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
    st.builds(
        lambda pairs: AnyValue(kvlist_value=KeyValueList(values=pairs)),
        st.lists(st.builds(KeyValue, key=texts), max_size=2),
    ),
)
arrays = st.builds(lambda items: AnyValue(array_value=ArrayValue(values=items)), st.lists(scalars | others, max_size=4))
pairs = st.lists(st.builds(KeyValue, key=st.sampled_from(NAMES) | texts, value=scalars | others | arrays), max_size=6)
events = st.lists(
    st.builds(
        ProtoSpan.Event,
        name=st.sampled_from(("exception", "exceptional", "")) | texts,
        attributes=st.lists(
            st.builds(KeyValue, key=st.sampled_from(("exception.type", "exception.message")), value=scalars), max_size=1
        ),
    ),
    max_size=2,
)
spans = st.builds(
    lambda code, message, **fields: ProtoSpan(status=Status(code=code, message=message), **fields),
    code=st.sampled_from((0, 1, 2)),
    message=texts,
    trace_id=ids,
    span_id=ids,
    parent_span_id=ids,
    trace_state=texts,
    name=texts | st.sampled_from([name for each in SPAN_NAMES.values() for name in (each, f"Class.{each}")]),
    kind=st.sampled_from((0, 1, 5)),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=pairs,
    events=events,
    flags=st.integers(0, 2**32 - 1),
)


@st.composite
def trace_requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        group = request.resource_spans.add(schema_url=draw(texts))
        group.resource.attributes.extend(draw(pairs))
        for _ in range(draw(st.integers(0, 2))):
            scoped = group.scope_spans.add()
            scoped.scope.name = draw(texts)
            scoped.scope.version = draw(texts)
            scoped.spans.extend(draw(st.lists(spans, max_size=2)))
    return request


@st.composite
def log_requests(draw: st.DrawFn) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.extend(draw(pairs))
    scoped = group.scope_logs.add()
    scoped.scope.name = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        record = scoped.log_records.add(
            time_unix_nano=draw(times),
            observed_time_unix_nano=draw(times),
            event_name=draw(texts | st.just("known.event")),
            severity_text=draw(texts),
        )
        record.attributes.extend(draw(pairs))
        record.body.CopyFrom(draw(scalars | others | arrays | st.just(AnyValue(string_value="known.event"))))
    return request


def scalar_of(value: AnyValue) -> Any:  # noqa: ANN401  # Any scalar.
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in {"string_value", "bool_value", "int_value", "double_value"} else None


def value_of(value: AnyValue) -> Value | None:
    if value.WhichOneof("value") == "array_value":
        return [item for each in value.array_value.values if (item := scalar_of(each)) is not None]
    found: Value | None = scalar_of(value)
    return found


def attributes_of(sent: Any, *, free: bool) -> dict[str, Value]:  # noqa: ANN401  # A repeated field of protobuf.
    kept: dict[str, Value] = {}
    for pair in sent:
        value = value_of(pair.value)
        if (pair.key in WANTED or (free and pair.key.startswith("free."))) and value is not None:
            kept[pair.key] = value
    return kept


def valid(raw: bytes, size: int) -> bytes:
    return raw if len(raw) == size and any(raw) else b""


def expected_spans(request: ExportTraceServiceRequest) -> Iterator[tuple[object, ...]]:
    for group in request.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                exceptions = [event for event in span.events if event.name == "exception"]
                types = [
                    pair.value.string_value
                    for event in exceptions
                    for pair in event.attributes
                    if pair.key == "exception.type"
                ]
                yield (
                    attributes_of(group.resource.attributes, free=False),
                    scoped.scope.name,
                    valid(span.trace_id, 16),
                    valid(span.span_id, 8),
                    valid(span.parent_span_id, 8),
                    SPAN_NAMES.get(span.name.rpartition(".")[2].encode(), ""),
                    scoped.scope.version,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == 2 or bool(exceptions),
                    next(filter(None, reversed(types)), ""),
                    attributes_of(span.attributes, free=True),
                )


def fields_of(span: Span) -> tuple[object, ...]:
    return (
        span.resource.attributes,
        span.scope,
        span.trace_id,
        span.span_id,
        span.parent_id,
        span.name,
        span.scope_version,
        span.start,
        span.end,
        span.has_failed,
        span.exception_type,
        span.attributes,
    )


def fields_of_log(record: LogRecord) -> tuple[object, ...]:
    return (
        record.resource.attributes,
        record.scope,
        record.time,
        record.observed_time,
        record.event_name,
        record.body,
        record.attributes,
    )


def otlp_json(request: Any) -> bytes:  # noqa: ANN401  # A message of protobuf.
    """The request in OTLP's JSON, where ids are hex."""

    def hexed(item: Any) -> Any:  # noqa: ANN401  # Any JSON value.
        if isinstance(item, list):
            return [hexed(each) for each in item]
        if not isinstance(item, dict):
            return item
        ids = {"traceId", "spanId", "parentSpanId"}
        return {key: b64decode(each).hex() if key in ids else hexed(each) for key, each in item.items()}

    return msgspec.json.encode(hexed(MessageToDict(request)))


@given(trace_requests())
def test_spans_are_read_like_the_protobuf_library_reads_them(request: ExportTraceServiceRequest) -> None:
    read = protobuf.read_spans(request.SerializeToString(), RULES)

    assert [fields_of(span) for span in read] == list(expected_spans(request))


@given(trace_requests())
def test_spans_in_json_are_those_in_protobuf(request: ExportTraceServiceRequest) -> None:
    read = json.read_spans(otlp_json(request), RULES)

    assert [fields_of(span) for span in read] == list(expected_spans(request))


@given(log_requests())
def test_log_records_are_read_like_the_protobuf_library_reads_them(request: ExportLogsServiceRequest) -> None:
    group = request.resource_logs[0]
    expected = [
        (
            attributes_of(group.resource.attributes, free=False),
            group.scope_logs[0].scope.name,
            record.time_unix_nano,
            record.observed_time_unix_nano,
            record.event_name if record.event_name == "known.event" else "",
            "known.event" if record.body.string_value == "known.event" else "",
            attributes_of(record.attributes, free=True),
        )
        for record in group.scope_logs[0].log_records
    ]

    assert [fields_of_log(one) for one in protobuf.read_logs(request.SerializeToString(), RULES)] == expected
    assert [fields_of_log(one) for one in json.read_logs(otlp_json(request), RULES)] == expected


@given(trace_requests(), st.data())
def test_a_body_that_protobuf_refuses_or_reads_otherwise_is_never_more_than_refused(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = ExportTraceServiceRequest.FromString(bytes(body))
    except DecodeError:
        expected = None

    try:
        read = [fields_of(span) for span in protobuf.read_spans(bytes(body), RULES)]
    except Malformed:
        return
    # Encoded anew it is the same where nothing was encoded in an unusual way, twice, or unknown.
    if expected is not None and expected.SerializeToString() == body:
        assert repr(read) == repr(list(expected_spans(expected)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for read in (protobuf.read_spans, json.read_spans):
        with suppress(Malformed):
            list(read(body, RULES))


@given(trace_requests(), st.data())
def test_a_body_that_ends_too_early_is_refused_unless_protobuf_reads_it(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    body = request.SerializeToString()
    body = body[: data.draw(st.integers(0, len(body)))]
    try:
        ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        with pytest.raises(Malformed):
            list(protobuf.read_spans(body, RULES))


def span_in(fields: bytes) -> bytes:
    """A request of one span of these fields."""
    scoped = b"\x12" + varint(len(fields)) + fields
    group = b"\x12" + varint(len(scoped)) + scoped
    return b"\x0a" + varint(len(group)) + group


def varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded, number = encoded + bytes([number & 127 | 128]), number >> 7
    return encoded + bytes([number])


WRONG = {
    "a group": b"\x0b\x0c",
    "a wire type that is none": b"\x0e",
    "field number 0": b"\x00\x01",
    "a length past the span's end": b"\x0a\x7f",
    "a length of 2^63": b"\x0a" + b"\xff" * 8 + b"\x7f",
    "a varint of eleven bytes": b"\x30" + b"\x80" * 10 + b"\x01",
    "a time that is cut": b"\x39\x00\x00",
    "a text that is not UTF-8": b"\x4a\x0e\x0a\x06wanted\x12\x04\x0a\x02\xff\xfe",
    "an attribute that goes beyond itself": b"\x4a\x06\x0a\x06wanted",
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG.keys())
def test_malformed_protobuf_refuses_the_whole_body(fields: bytes) -> None:
    good = as_protobuf(make_request(make_span()))

    with pytest.raises(Malformed):
        list(protobuf.read_spans(good + span_in(fields), RULES))


def test_unknown_fields_are_skipped_whatever_their_wire_type() -> None:
    unknown = b"\xa0\x06\x01" + b"\xa1\x06" + b"\0" * 8 + b"\xa2\x06\x02ab" + b"\xa5\x06" + b"\0" * 4
    start = b"\x39" + struct.pack("<Q", 5)

    (span,) = protobuf.read_spans(span_in(unknown + start + unknown), RULES)

    assert span.start == 5


def test_a_value_before_its_key_counts_and_so_do_messages_in_two_parts() -> None:
    value = b"\x12\x03\x0a\x01v"
    key = b"\x0a\x06wanted"
    swapped = b"\x4a" + varint(len(value + key)) + value + key

    (span,) = protobuf.read_spans(span_in(swapped), RULES)

    assert span.attributes == {"wanted": "v"}


def test_an_unwanted_value_is_not_even_looked_at() -> None:
    broken = b"\x4a\x10\x0a\x08unwanted\x12\x04\x0a\x02\xff\xfe"

    (span,) = protobuf.read_spans(span_in(broken), RULES)

    assert span.attributes == {}


@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_ids_in_json_are_hex_in_any_case(spelling: Any) -> None:  # noqa: ANN401  # A method of str.
    request = make_request(make_span({}, traceId=spelling(TRACE), spanId=spelling(SPAN)))

    (span,) = json.read_spans(as_json(request), RULES)

    assert (span.trace_id.hex(), span.span_id.hex()) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "bad", ["", "0" * 16, "0g" * 8, "0a " * 5 + "0", SPAN[:-2], SPAN + "00", "CvdlGRbNQ90=", None, 5, []]
)
def test_an_invalid_id_is_empty(bad: object) -> None:
    request = make_request(make_span({}) | {"spanId": bad})

    (span,) = json.read_spans(as_json(request), RULES)

    assert span.span_id == b""


@pytest.mark.parametrize("time", ["5", 5, 5.0])
def test_times_in_json_are_numbers_or_strings(time: object) -> None:
    (span,) = json.read_spans(as_json(make_request(make_span({}, startTimeUnixNano=time))), RULES)

    assert span.start == 5


@pytest.mark.parametrize("code", [2, "2", "STATUS_CODE_ERROR"])
def test_a_status_in_json_is_a_number_or_a_name(code: object) -> None:
    (span,) = json.read_spans(as_json(make_request(make_span({}, status={"code": code}))), RULES)

    assert span.has_failed


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": null}', b'{"resourceSpans": [{}, null]}', b'{"more": {}}'])
def test_null_is_absent_in_json(body: bytes) -> None:
    assert list(json.read_spans(body, RULES)) == []


def test_null_values_and_attributes_without_one_are_absent() -> None:
    request = make_request(
        make_span({}) | {"attributes": [{"key": "wanted", "value": None}, {"key": "model"}, {"value": {}}]}
    )

    (span,) = json.read_spans(as_json(request), RULES)

    assert span.attributes == {}


JSON_WRONG = [
    b"",
    b"[]",
    b"{",
    b'{"resourceSpans": {}}',
    b'{"resourceSpans": [{"scopeSpans": [{"spans": [5]}]}]}',
    b"\xff",
]


@pytest.mark.parametrize("body", JSON_WRONG)
def test_invalid_otlp_json_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        list(json.read_spans(body, RULES))


@pytest.mark.parametrize("time", ["-5", "5x", "1" * 30, 1.5, -1, 2**64])
def test_an_invalid_time_refuses_the_body(time: object) -> None:
    with pytest.raises(Malformed):
        list(json.read_spans(as_json(make_request(make_span({}, startTimeUnixNano=time))), RULES))


def test_many_objects_are_read_one_span_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    body = as_json(make_request(make_span(), make_span({"model": "other"}), resource={"model": "m"}))
    at_once = [fields_of(span) for span in json.read_spans(body, RULES)]
    monkeypatch.setattr(json, "_OBJECTS_AT_ONCE", 0)

    assert [fields_of(span) for span in json.read_spans(body, RULES)] == at_once


def test_equal_resources_of_a_request_are_one() -> None:
    request = make_request(make_span())
    request["resourceSpans"] *= 2

    for read, body in ((json.read_spans, as_json(request)), (protobuf.read_spans, as_protobuf(request))):
        first, second = read(body, RULES)
        assert first.resource is second.resource


EMPTY_GROUPS = {
    "resources": b"\x0a\x00" * 100_001,
    "scopes": b"\x0a" + varint(200_002) + b"\x12\x00" * 100_001,
    "spans": b"\x0a" + varint(200_008) + b"\x12" + varint(200_004) + b"\x12\x00" * 100_002,
    "attributes": span_in(b"\x4a\x00" * 50_001),
    "attributes of a resource": b"\x0a" + varint(100_006) + b"\x0a" + varint(100_002) + b"\x0a\x00" * 50_001,
}


@pytest.mark.parametrize("body", EMPTY_GROUPS.values(), ids=EMPTY_GROUPS.keys())
def test_very_many_empty_parts_are_refused_before_they_take_long(body: bytes) -> None:
    with pytest.raises(Malformed):
        list(protobuf.read_spans(body, RULES))


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceSpans":[' + b",".join([b"null"] * 100_001) + b"]}",
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[' + b",".join([b"{}"] * 50_001) + b"]}]}]}]}",
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[' + b",".join([b"{}"] * 50_001) + b"]}]}]}]}",
    ],
)
def test_very_many_empty_parts_of_json_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        list(json.read_spans(body, RULES))


def test_very_deep_nesting_is_refused_or_skipped() -> None:
    value = "[" * 100_000
    nested = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"wanted","value":' + value.encode()

    with pytest.raises(Malformed):
        list(json.read_spans(nested, RULES))

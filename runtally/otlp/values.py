"""The results of reading OTLP in either encoding: spans and log records with the wanted attributes alone.

A value that is not wanted stays undecoded in the request's body, so content is never decoded.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | list[Scalar]
Attributes: TypeAlias = dict[str, Value]

MAX_ITEMS = 64
"""The most elements of a list that are read; a longer list is not kept."""
EXCEPTION = "exception"
"""The name of the only event of a span that is read."""
EXCEPTION_TYPE = "exception.type"
"""The name of the only attribute that is read of that event."""
RAW_REQUEST = "raw_gen_ai_request"
"""The name of the spans in which LiteLLM repeats a call with its content."""
PREPARATION = "_prepare_chat_with_tools"
"""The name of the spans in which LlamaIndex writes down the tools for a call, which OpenInference marks as a call too."""
ATTEMPTS = ("llm_request_run", "tts_request_run")
"""The names of LiveKit's spans for each try of a call."""
INVOKE_MODEL = ("invoke_model", "invoke_model_with_response_stream")
"""The names of OpenInference's spans whose counts are those of the model's vendor."""
NAMES: Mapping[bytes, str] = {name.encode(): name for name in (RAW_REQUEST, PREPARATION, *ATTEMPTS, *INVOKE_MODEL)}
"""The names of spans that are read, without the class before a dot; all others are not even decoded."""
MAX_GROUPS = 100_000
"""The most resources and scopes of a request, and records of a scope: many empty ones cost hours for a few bytes."""
MAX_FIELDS = 50_000
"""The most attributes and events of one record, or of one resource."""
TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8


class Wanted:
    """The names of the attributes to decode, by their keys on the wire."""

    def __init__(self, names: frozenset[str], prefixes: tuple[str, ...] = ()) -> None:
        self.names = names
        self.prefixes = prefixes
        self.keys: Mapping[bytes, str] = {name.encode(): name for name in names}
        self.key_prefixes = tuple(prefix.encode() for prefix in prefixes)


class Resource(msgspec.Struct, frozen=True, eq=False):
    """The attributes of a sender. Two resources are equal if the digests of their encodings are."""

    attributes: Attributes
    digest: bytes


class Span(msgspec.Struct, eq=False):
    """A span. An id that is not valid is empty; times are Unix nanoseconds, 0 where unknown."""

    resource: Resource
    scope: str
    trace_id: bytes = b""
    span_id: bytes = b""
    parent_id: bytes = b""
    scope_version: str = ""
    name: str = ""
    """One of `NAMES`, else empty."""
    start: int = 0
    end: int = 0
    has_failed: bool = False
    """Whether its status is an error, or an exception was recorded."""
    exception_type: str = ""
    attributes: Attributes = {}


class LogRecord(msgspec.Struct, eq=False):
    """A log record. Its name and body are empty unless they are among the wanted ones."""

    resource: Resource
    scope: str
    time: int = 0
    observed_time: int = 0
    event_name: str = ""
    body: str = ""
    attributes: Attributes = {}


class Point(NamedTuple):
    """A point of a sum. Times are Unix nanoseconds, 0 where unknown."""

    attributes: Attributes
    start: int
    time: int
    value: float


class Metric(msgspec.Struct, eq=False):
    """A metric. It has points only if it is a sum with one of the wanted names."""

    resource: Resource
    scope: str
    name: str = ""
    is_delta: bool = False
    points: list[Point] = []


class Rules(NamedTuple):
    """The parts of a request to decode."""

    resource: Wanted
    record: Wanted
    bodies: frozenset[str] = frozenset()
    """The bodies and event names of log records that tell their kind, or the names of metrics to read."""


def digest_of(raw: bytes) -> bytes:
    """Return a digest of an encoding, which may be long and hold anything."""
    return blake2b(raw, digest_size=16).digest()


class Malformed(Exception):
    """The body does not have its declared format."""

"""What a reader of OTLP hands over, whichever encoding it reads: spans and log records with the wanted attributes alone.

A value that nobody asked for stays bytes in the request's body: content is never decoded.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | list[Scalar]
Attributes: TypeAlias = dict[str, Value]

MAX_ITEMS = 64
"""Elements that are read of a list; none that is kept may have as many."""
EXCEPTION = "exception"
"""Name of the only event of a span that is read."""
EXCEPTION_TYPE = "exception.type"
"""Name of the only attribute that is read of it."""
RAW_REQUEST = "raw_gen_ai_request"
"""Name of the spans in which LiteLLM repeats a call with its content; no other name is read."""
MAX_GROUPS = 100_000
"""Resources and scopes of one request, and records of one scope: of more, which may be empty, a few bytes make hours of work."""
MAX_FIELDS = 50_000
"""Attributes and events of one record, or of one resource."""
TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8


class Wanted:
    """Names of the attributes to decode, by their keys on the wire."""

    def __init__(self, names: frozenset[str], prefixes: tuple[str, ...] = ()) -> None:
        self.names = names
        self.prefixes = prefixes
        self.keys: Mapping[bytes, str] = {name.encode(): name for name in names}
        self.key_prefixes = tuple(prefix.encode() for prefix in prefixes)


class Resource(msgspec.Struct, frozen=True, eq=False):
    """Who sent the records below it. Two are equal if the digests of their encodings are."""

    attributes: Attributes
    digest: bytes


class Span(msgspec.Struct, eq=False):
    """A span. An id that is not valid is empty; times are Unix nanoseconds, 0 where unknown."""

    resource: Resource
    scope: str
    trace_id: bytes = b""
    span_id: bytes = b""
    parent_id: bytes = b""
    is_raw_request: bool = False
    start: int = 0
    end: int = 0
    has_failed: bool = False
    """Whether its status says error, or an exception was recorded."""
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


class Rules(NamedTuple):
    """What to decode of a request."""

    resource: Wanted
    record: Wanted
    bodies: frozenset[str] = frozenset()
    """Of log records: the bodies and event names that say what a record is."""


def digest_of(raw: bytes) -> bytes:
    """What stands for an encoding, which may be long and hold anything."""
    return blake2b(raw, digest_size=16).digest()


class Malformed(Exception):
    """The body is not what its type says."""

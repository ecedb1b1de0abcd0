"""The fields of a run on the wire: names, types, constraints, exact numbers, and what is wrong with a value, by its path.

Shared by ingest and by the documents that go to the reporting table. Pure; messages never repeat a value.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta, UnsetType

from runtally.errors import Detail, InvalidJson, InvalidPayload
from runtally.money import MAX_USD

MAX_COUNT = 2**53 - 1
"""The largest whole number that every JSON client can send exactly."""
MAX_ROW = 2**63 - 1
"""The largest number of a row that Postgres counts up to."""
MAX_NAME = 256
MAX_PROJECT_ID = 128
MAX_PREVIEW = 160
MAX_LABEL = 64
MAX_TAGS = 20
MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_LEVELS = 5
# Before content is dropped; to decide on a key that nobody sent before takes some microseconds.
MAX_METADATA_KEYS = 10_000

EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
MAX_AHEAD = timedelta(hours=24)

# Postgres keeps any character but NUL.
_WITHOUT_NUL = r"^[^\x00]*$"
# Python and ECMAScript, whose expressions JSON Schema has, differ in what `\s` is: here it is what either says.
NOT_BLANK = r"^[^\x00]*[^\s\x00\x1c-\x1f\x85\ufeff][^\x00]*$"

Name = Annotated[
    str, Meta(max_length=MAX_NAME, pattern=NOT_BLANK, description="a string of 1 to 256 characters, not blank")
]
Text = Annotated[
    str, Meta(max_length=MAX_NAME, pattern=_WITHOUT_NUL, description="a string of at most 256 characters, without NUL")
]
Id = Annotated[
    str,
    Meta(
        max_length=MAX_NAME,
        pattern=_WITHOUT_NUL,
        description="a string of at most 256 characters, without NUL; blanks at its ends are dropped",
    ),
]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT, description="a whole number from 0 to 2^53 - 1")]
Preview = Annotated[
    str,
    Meta(max_length=MAX_PREVIEW, pattern=_WITHOUT_NUL, description="a string of at most 160 characters, without NUL"),
]
Label = Annotated[
    str, Meta(max_length=MAX_LABEL, pattern=_WITHOUT_NUL, description="a string of at most 64 characters, without NUL")
]
Tags = Annotated[
    list[Label],
    Meta(max_length=MAX_TAGS, description="a list of at most 20 strings of at most 64 characters, without NUL"),
]
Metadata = Annotated[
    dict[str, Any], Meta(description="an object of at most 16 KiB and 5 levels, with numbers of at most 300 digits")
]
# msgspec hands raw values over unread, so their constraints are only told here; whoever reads them enforces them.
_NUMBER = {"type": ["number", "null"], "minimum": 0}
Amount = Annotated[
    msgspec.Raw,
    Meta(description="a number from 0 to 1000000000000", extra_json_schema=_NUMBER | {"maximum": int(MAX_USD)}),
]
Difference = Annotated[
    msgspec.Raw,
    Meta(
        description="a number from -1000000000000 to 1000000000000",
        extra_json_schema={"type": ["number", "null"], "minimum": -int(MAX_USD), "maximum": int(MAX_USD)},
    ),
]
Quantity = Annotated[
    msgspec.Raw, Meta(description="a number from 0 to 2^53 - 1", extra_json_schema=_NUMBER | {"maximum": MAX_COUNT})
]
Moment = Annotated[
    str,
    Meta(
        description="ISO 8601, or Unix seconds or milliseconds in a string",
        # Not `date-time`, which Unix seconds in a string are not; a format of our own only tells.
        extra_json_schema={"format": "timestamp"},
    ),
]
ProjectId = Annotated[
    str,
    Meta(
        max_length=MAX_PROJECT_ID,
        pattern=NOT_BLANK,
        description="a string of 1 to 128 characters, not blank; blanks at its ends are dropped",
    ),
]
_NOT_BLANK_TEXT = re.compile(NOT_BLANK)
# What Python strips, and what JavaScript trims.
_BLANKS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000\ufeff"
)


def trimmed(text: str) -> str:
    """Return an id as it is stored and looked up: without blanks at its ends, which nobody sees.

    Whatever names a project, run, experiment, trace, session or user goes through here, on every way in.
    """
    return text.strip(_BLANKS)


def parse_whole(text: str, most: int = MAX_COUNT) -> int | None:
    """Return the whole number in a text; None for a text that is none, and for a number that is larger than `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def is_project_id(text: str) -> bool:
    """Whether a project can have this id. No other text may reach a statement: Postgres takes no NUL."""
    return len(text) <= MAX_PROJECT_ID and _NOT_BLANK_TEXT.search(text) is not None


def parse_project_id(text: str) -> str:
    """The trimmed text, if a project can have it as its id. Raises `InvalidPayload`."""
    text = trimmed(text)
    if not is_project_id(text):
        must = f"must be a string of 1 to {MAX_PROJECT_ID} characters, not blank and without NUL"
        raise InvalidPayload(details=(Detail("projectId", must),))
    return text


_CAMEL = {
    "cost_usd": "costUSD",
    "reported_cost_usd": "reportedCostUSD",
    "cache_savings_usd": "cacheSavingsUSD",
    "p50_latency_ms": "p50LatencyMs",
    "p95_latency_ms": "p95LatencyMs",
}


def camel(name: str) -> str:
    """The wire name of a field: `input_tokens` is `inputTokens`, and the contract writes `costUSD`."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(part.capitalize() for part in rest)


# What decoding a value of the wrong form raises: of the wrong type, not UTF-8, nested without end.
WRONG = (msgspec.ValidationError, UnicodeDecodeError, RecursionError)
# Beyond this a number in metadata is no number that the database can keep.
_MAX_EXPONENT = 300
# Longer than any number that a float or a decimal amount prints as.
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]{0,63}")
SCALARS = frozenset({str, int, float, bool, Decimal, type(None)})
"""Types of the values of JSON that hold no others."""
_metadata_encoder = msgspec.json.Encoder(decimal_format="number")


def exact(literal: str) -> Decimal:
    """A number of a JSON document as the decimal it was sent as: the hook of a msgspec decoder."""
    try:
        number = Decimal(literal)
    except InvalidOperation:
        raise ValueError from None
    # A zero too: Postgres keeps its decimal places.
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError
    return number


def read_number(raw: msgspec.Raw | UnsetType) -> Decimal | bool | None:
    """The number in these bytes exactly, None for none, False for anything else, such as a number in a string."""
    if isinstance(raw, UnsetType):
        return None
    literal = bytes(raw)
    if literal == b"null":
        return None
    try:
        return Decimal(literal.decode()) if _LITERAL.fullmatch(literal) else False
    except InvalidOperation:
        return False


def with_whole_counts(struct: type[msgspec.Struct], sent: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """The fields of an object, its counts as msgspec takes them where they are written as 12.0, whole to JSON Schema."""
    counts = _counts(struct)
    return {name: _whole(value) if name in counts else value for name, value in sent.items()}


@cache
def _counts(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the fields that are whole numbers."""
    fields = msgspec.structs.fields(struct)
    return frozenset(
        field.encode_name
        for field in fields
        if any(int in get_args(part) for part in (field.type, *get_args(field.type)))
    )


def _whole(raw: msgspec.Raw) -> msgspec.Raw:
    number = read_number(raw)
    # Bounded first: 1e999999999 has as many digits.
    if isinstance(number, Decimal) and 0 <= number <= MAX_COUNT and number == int(number):
        return msgspec.Raw(str(int(number)).encode())
    return raw


def wrong_fields(struct: type[msgspec.Struct], sent: Mapping[str, msgspec.Raw]) -> Iterator[Detail]:
    """Every field that does not fit the struct; msgspec itself would stop at the first. Raises `InvalidJson`."""
    for field in msgspec.structs.fields(struct):
        value = sent.get(field.encode_name)
        if value is None and field.required:
            yield Detail(field.encode_name, "is required")
        elif value is not None and not _fits(value, field.type):
            yield Detail(field.encode_name, f"must be {_constraint(field.type)}")


def _fits(value: msgspec.Raw, expected: Any) -> bool:  # noqa: ANN401  # Any type that msgspec can decode.
    try:
        msgspec.json.Decoder(expected, float_hook=exact).decode(value)
    except WRONG:
        return False
    except msgspec.DecodeError:
        raise InvalidJson from None
    return True


def _constraint(expected: Any) -> str:  # noqa: ANN401  # As above.
    """The constraint in words, from the description that the OpenAPI document shows too."""
    for part in (expected, *get_args(expected)):
        if get_origin(part) is Annotated:
            return next(str(meta.description) for meta in part.__metadata__ if isinstance(meta, msgspec.Meta))
        if isinstance(part, type) and issubclass(part, Enum):
            return "one of " + ", ".join(str(member.value) for member in part)
    return "true or false" if bool in get_args(expected) else "an object"


def nests_too_deep(metadata: Mapping[str, Any]) -> bool:
    """To be asked first: all other functions here and the content rule walk the whole depth."""
    return not is_flat(metadata) and _levels(metadata, MAX_METADATA_LEVELS + 1) > MAX_METADATA_LEVELS


def has_too_many_keys(metadata: Mapping[str, Any]) -> bool:
    """To be asked before the content rule, which decides on each of them."""
    return _keys(metadata) > MAX_METADATA_KEYS


def is_flat(metadata: Mapping[str, Any]) -> bool:
    """Whether no value is an object, an array, or anything else that may hold others."""
    return SCALARS.issuperset(map(type, metadata.values()))


def metadata_faults(metadata: Mapping[str, Any]) -> list[str]:
    """What keeps this metadata from being stored: its size as JSON, and characters that Postgres does not keep."""
    faults = []
    encoded = _metadata_encoder.encode(metadata)
    if len(encoded) > MAX_METADATA_BYTES:
        faults.append(f"must be at most {MAX_METADATA_BYTES} bytes of JSON")
    # Escaped text can look like an escaped NUL, so a hit is looked at again.
    if b"\\u0000" in encoded and _holds_nul(metadata):
        faults.append("must not hold a NUL character")
    return faults


def _levels(value: Any, limit: int) -> int:  # noqa: ANN401  # Metadata is any JSON value.
    """How many objects and arrays are inside one another, counted no further than the limit."""
    deepest = 0
    if limit:
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in SCALARS:
                deepest = max(deepest, _levels(item, limit - 1))
    return deepest + 1


def _keys(value: Any) -> int:  # noqa: ANN401  # Metadata is any JSON value.
    if isinstance(value, dict):
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if isinstance(value, list) else 0


def _holds_nul(value: Any) -> bool:  # noqa: ANN401  # Metadata is any JSON value.
    if isinstance(value, dict):
        return any("\0" in key or _holds_nul(item) for key, item in value.items())
    if isinstance(value, list):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, str) and "\0" in value

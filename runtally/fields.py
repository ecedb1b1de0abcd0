"""The fields of a run on the wire: names, types, constraints, exact numbers, and errors by path.

Ingest and the documents for the reporting table share them. Pure; messages never repeat a value.
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
from runtally.units import FURTHER_UNITS, MAX_UNIT_NAME, MAX_UNITS, Measured

MAX_COUNT = 2**53 - 1
"""The largest whole number that every JSON client can send exactly."""
MAX_ROW = 2**63 - 1
"""The largest row number in Postgres."""
MAX_NAME = 256
MAX_PROJECT_ID = 128
MAX_PREVIEW = 160
MAX_LABEL = 64
MAX_TIER = 32
MAX_TAGS = 20
MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_LEVELS = 5
# Limits before content is dropped: to decide on a key for the first time takes some microseconds, and the time grows with
# its length, for some letters twenty times as fast as for others.
MAX_METADATA_KEYS = 10_000
MAX_METADATA_KEY_CHARS = 64 * 1024

EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
MAX_AHEAD = timedelta(hours=24)

# Postgres stores any character but NUL.
_WITHOUT_NUL = r"^[^\x00]*$"
# Python and ECMAScript, whose expressions JSON Schema has, differ in `\s`: this is the union of both.
NOT_BLANK = r"^[^\x00]*[^\s\x00\x1c-\x1f\x85\ufeff][^\x00]*$"

TEAM = "team::"
"""How the id of a team begins, which stands where a project's may: no project has such an id."""
_PROJECT_ID = rf"^(?![\s\x1c-\x1f\x85\ufeff]*{TEAM})" + NOT_BLANK.removeprefix("^")

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
_UNIT_COUNT = {"minimum": 0, "maximum": MAX_COUNT}
Units = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_UNITS,
        description="an object that maps at most 32 names of units to numbers from 0 to 2^53 - 1",
        extra_json_schema={
            "propertyNames": {"maxLength": MAX_UNIT_NAME, "pattern": NOT_BLANK},
            "properties": {
                unit.name: {
                    "type": ["number" if unit.measured is Measured.SECONDS else "integer", "null"],
                    **_UNIT_COUNT,
                }
                for unit in FURTHER_UNITS
            },
            "additionalProperties": {"type": ["number", "null"], **_UNIT_COUNT},
        },
    ),
]
Tier = Annotated[
    str, Meta(max_length=MAX_TIER, pattern=_WITHOUT_NUL, description="a string of at most 32 characters, without NUL")
]
# msgspec does not decode raw values, so these constraints only document them; the reader enforces them.
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
        # Not `date-time`, which does not include Unix seconds in a string; an unknown format is not validated.
        extra_json_schema={"format": "timestamp"},
    ),
]
ProjectId = Annotated[
    str,
    Meta(
        max_length=MAX_PROJECT_ID,
        pattern=_PROJECT_ID,
        description=f"a string of 1 to 128 characters, not blank, that does not begin with {TEAM}; blanks at its ends are dropped",
    ),
]
_PROJECT_ID_TEXT = re.compile(_PROJECT_ID)
# The characters that Python strips, and those that JavaScript trims.
_BLANKS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000\ufeff"
)


def trimmed(text: str) -> str:
    """Return an id in the form in which it is stored and looked up: without surrounding blanks, which are invisible.

    Every id of a project, run, experiment, trace, session or user passes through this function, on every way in.
    """
    return text.strip(_BLANKS)


def parse_whole(text: str, most: int = MAX_COUNT) -> int | None:
    """Return the whole number in a text; None for any other text, and for a number larger than `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def is_project_id(text: str) -> bool:
    """Return whether a project can have this id. No other text may reach a statement: Postgres stores no NUL."""
    return len(text) <= MAX_PROJECT_ID and _PROJECT_ID_TEXT.search(text) is not None


def is_team(id_: str) -> bool:
    """Return whether this is the id of a team, in place of a project's."""
    return id_.startswith(TEAM)


def is_of_several(owner: str) -> bool:
    """Return whether budgets and alerts are of a team, or with a blank id of all projects, not of one."""
    return not owner or is_team(owner)


def parse_project_id(text: str) -> str:
    """Return the trimmed text if it is a valid project id. Raises `InvalidPayload`."""
    text = trimmed(text)
    if not is_project_id(text):
        must = f"must be a string of 1 to {MAX_PROJECT_ID} characters, not blank, without NUL, and not beginning with {TEAM}"
        raise InvalidPayload(details=(Detail("projectId", must),))
    return text


_CAMEL = {
    "cost_usd": "costUSD",
    "run_cost_usd": "runCostUSD",
    "reported_cost_usd": "reportedCostUSD",
    "cache_savings_usd": "cacheSavingsUSD",
    "p50_latency_ms": "p50LatencyMs",
    "p95_latency_ms": "p95LatencyMs",
}


def camel(name: str) -> str:
    """Return the wire name of a field: `input_tokens` is `inputTokens`, and `cost_usd` is `costUSD`."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(part.capitalize() for part in rest)


# Errors of decoding a value of the wrong form: the wrong type, not UTF-8, nested too deeply.
WRONG = (msgspec.ValidationError, UnicodeDecodeError, RecursionError)
# The database does not store a number in metadata beyond this exponent.
_MAX_EXPONENT = 300
# Longer than any float or decimal amount is printed.
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]{0,63}")
SCALARS = frozenset({str, int, float, bool, Decimal, type(None)})
"""The types of JSON values that hold no others."""
_metadata_encoder = msgspec.json.Encoder(decimal_format="number")


def exact(literal: str) -> Decimal:
    """Decode a JSON number as the exact decimal that was sent: the hook of a msgspec decoder."""
    try:
        number = Decimal(literal)
    except InvalidOperation:
        raise ValueError from None
    # This includes zero: Postgres keeps its decimal places.
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError
    return number


def read_number(raw: msgspec.Raw | UnsetType) -> Decimal | bool | None:
    """Decode a number exactly; None for null, False for anything else, such as a number in a string."""
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
    """Rewrite counts that were written as 12.0, which JSON Schema allows, in the way that msgspec accepts."""
    counts = _counts(struct)
    return {name: _whole(value) if name in counts else value for name, value in sent.items()}


@cache
def _counts(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields that are whole numbers."""
    fields = msgspec.structs.fields(struct)
    return frozenset(
        field.encode_name
        for field in fields
        if any(int in get_args(part) for part in (field.type, *get_args(field.type)))
    )


def _whole(raw: msgspec.Raw) -> msgspec.Raw:
    number = read_number(raw)
    # Check the range first: 1e999999999 has as many digits.
    if isinstance(number, Decimal) and 0 <= number <= MAX_COUNT and number == int(number):
        return msgspec.Raw(str(int(number)).encode())
    return raw


def wrong_fields(struct: type[msgspec.Struct], sent: Mapping[str, msgspec.Raw]) -> Iterator[Detail]:
    """Yield every field that does not fit the struct; msgspec itself stops at the first. Raises `InvalidJson`."""
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
    """Return the constraint in words, from the description that the OpenAPI document shows."""
    for part in (expected, *get_args(expected)):
        if get_origin(part) is Annotated:
            return next(str(meta.description) for meta in part.__metadata__ if isinstance(meta, msgspec.Meta))
        if isinstance(part, type) and issubclass(part, Enum):
            return "one of " + ", ".join(str(member.value) for member in part)
    return "true or false" if bool in get_args(expected) else "an object"


def search_fault(metadata: Mapping[str, Any]) -> str | None:
    """Return why metadata is too deep or has too much in its keys to be searched for content; None if it is not.

    Call this before the content rule, which descends the whole depth and decides on each key.
    """
    if not is_flat(metadata) and _levels(metadata, MAX_METADATA_LEVELS + 1) > MAX_METADATA_LEVELS:
        return f"must nest at most {MAX_METADATA_LEVELS} levels"
    lengths = list(_key_lengths(metadata))
    if len(lengths) > MAX_METADATA_KEYS or sum(lengths) > MAX_METADATA_KEY_CHARS:
        return f"must have at most {MAX_METADATA_KEYS:,} keys, of {MAX_METADATA_KEY_CHARS:,} characters together"
    return None


def is_flat(metadata: Mapping[str, Any]) -> bool:
    """Return whether no value is an object, an array, or anything else that may hold others."""
    return SCALARS.issuperset(map(type, metadata.values()))


def metadata_faults(metadata: Mapping[str, Any]) -> list[str]:
    """List the reasons why metadata cannot be stored: its size as JSON, and characters that Postgres does not store."""
    faults = []
    encoded = _metadata_encoder.encode(metadata)
    if len(encoded) > MAX_METADATA_BYTES:
        faults.append(f"must be at most {MAX_METADATA_BYTES} bytes of JSON")
    # Escaped text can look like an escaped NUL, so a hit is checked again.
    if b"\\u0000" in encoded and _holds_nul(metadata):
        faults.append("must not hold a NUL character")
    return faults


def _levels(value: Any, limit: int) -> int:  # noqa: ANN401  # Metadata is any JSON value.
    """Count nested objects and arrays, up to the limit."""
    deepest = 0
    if limit:
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in SCALARS:
                deepest = max(deepest, _levels(item, limit - 1))
    return deepest + 1


def _key_lengths(value: Any) -> Iterator[int]:  # noqa: ANN401  # Metadata is any JSON value.
    if isinstance(value, dict):
        yield from map(len, value)
        value = value.values()
    elif not isinstance(value, list):
        return
    for item in value:
        if type(item) not in SCALARS:
            yield from _key_lengths(item)


def _holds_nul(value: Any) -> bool:  # noqa: ANN401  # Metadata is any JSON value.
    if isinstance(value, dict):
        return any("\0" in key or _holds_nul(item) for key, item in value.items())
    if isinstance(value, list):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, str) and "\0" in value

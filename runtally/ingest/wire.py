"""The body of an ingest request, as sent: fields, types and constraints. The OpenAPI document is made from these types.

Money and other plain numbers stay raw bytes here: they are read as exact decimals later, and a number sent as a string
is not taken for a number. `prompt` and `completion` are raw as well, so that content is never even decoded.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from runtally.models.run import CostSource, Status

MAX_COUNT = 2**53 - 1
"""The largest whole number that every JSON client can send exactly."""
MAX_NAME = 256
MAX_PROJECT_ID = 128
MAX_PREVIEW = 160
MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_LEVELS = 5

# Postgres keeps any character but NUL.
_WITHOUT_NUL = r"^[^\x00]*$"
_NOT_BLANK = r"^[^\x00]*[^\s\x00][^\x00]*$"

Name = Annotated[
    str, Meta(max_length=MAX_NAME, pattern=_NOT_BLANK, description="a string of 1 to 256 characters, not blank")
]
Text = Annotated[
    str, Meta(max_length=MAX_NAME, pattern=_WITHOUT_NUL, description="a string of at most 256 characters, without NUL")
]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT, description="a whole number from 0 to 2^53 - 1")]
Preview = Annotated[
    str,
    Meta(max_length=MAX_PREVIEW, pattern=_WITHOUT_NUL, description="a string of at most 160 characters, without NUL"),
]
Metadata = Annotated[dict[str, Any], Meta(description="an object of at most 16 KiB and 5 levels")]

_CAMEL = {"cost_usd": "costUSD"}


def camel(name: str) -> str:
    """The wire name of a field: `input_tokens` is `inputTokens`, and the contract writes `costUSD`."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(part.capitalize() for part in rest)


class WireTokens(msgspec.Struct, frozen=True):
    """Legacy token counts."""

    input: msgspec.Raw | UnsetType = UNSET
    output: msgspec.Raw | UnsetType = UNSET


class WireRun(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """One run as a client sends it. Fields that are not named here are ignored: an SDK may be newer than the server."""

    provider: Name
    model: Name
    id: Text | None = None
    prompt: msgspec.Raw | UnsetType = UNSET
    completion: msgspec.Raw | UnsetType = UNSET
    tokens: WireTokens | None = None
    cost: msgspec.Raw | UnsetType = UNSET
    latency: msgspec.Raw | UnsetType = UNSET
    timestamp: Text | None = None
    metadata: Metadata | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    cost_usd: msgspec.Raw | UnsetType = UNSET
    latency_ms: Count | None = None
    status: Status | None = None
    error_code: Text | None = None
    prompt_hash: Text | None = None
    prompt_preview: Preview | None = None
    experiment_id: Text | None = None
    trace_id: Text | None = None
    idempotency_key: Text | None = None
    run_id: Text | None = None
    cost_source: CostSource | None = None
    cost_estimated: bool | None = None


class Envelope(msgspec.Struct, frozen=True, rename=camel):
    """What tells a batch from a single run, and whose it is. `runs` stays raw until that is known."""

    project_id: msgspec.Raw | UnsetType = UNSET
    runs: msgspec.Raw | UnsetType = UNSET

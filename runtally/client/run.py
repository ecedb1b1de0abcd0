"""A run as a client sends it, the body of a batch of them, and the errors of clients, which never become an HTTP response.

The service's own request types are not used here: they stand above this package, and a client that shared them could
never show that the documented interface is enough.
"""

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from runtally.errors import RuntallyError
from runtally.files import START_COMMAND

# Level 1 packs a batch to a tenth already; more would only keep the server waiting.
_GZIP_LEVEL = 1
_CAMEL = {"cost_usd": "costUSD"}


def wire_name(name: str) -> str:
    """The name of a field on the wire: `inputTokens` for `input_tokens`, and `costUSD`."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(part.capitalize() for part in rest)


class OutgoingRun(msgspec.Struct, rename=wire_name, omit_defaults=True, kw_only=True):
    """One run. It always has a `run_id`, so that sending it again stores nothing twice; it never has content."""

    run_id: str
    id: str | None = None
    provider: str
    model: str
    timestamp: str | None = None
    status: str | None = None
    error_code: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    units: dict[str, Any] | None = None
    service_tier: str | None = None
    region: str | None = None
    latency_ms: int | None = None
    time_to_first_token_ms: int | None = None
    cost_usd: Decimal | None = None
    experiment_id: str | None = None
    trace_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    tags: list[str] | None = None
    prompt_hash: str | None = None
    prompt_preview: str | None = None
    idempotency_key: str | None = None
    metadata: dict[str, Any] | None = None


class _Envelope(msgspec.Struct, rename=wire_name):
    project_id: str
    runs: Sequence[OutgoingRun]


# Decimals travel as numbers with every digit they have; a float would round them.
_encoder = msgspec.json.Encoder(decimal_format="number")


def gzipped_batch(project_id: str, runs: Sequence[OutgoingRun]) -> bytes:
    """The gzip-encoded JSON body of a batch; the same batch always gives the same bytes."""
    return gzip.compress(_encoder.encode(_Envelope(project_id, runs)), _GZIP_LEVEL, mtime=0)


def as_text(run: OutgoingRun) -> str:
    """The run as the JSON that is sent."""
    return _encoder.encode(run).decode()


def wire_time(moment: datetime) -> str:
    """The moment as ISO 8601 in UTC; a moment without an offset is UTC already."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


class ServerUnreachable(RuntallyError):
    code = "server_unreachable"
    message = f"The server does not answer; start it with `{START_COMMAND}`, or say where it is with --url."


class RequestRefused(RuntallyError):
    code = "request_refused"
    message = "The server refused the request."


class GaveUp(RuntallyError):
    code = "gave_up"
    message = "The server stayed out of reach; run the same command again, which skips what it has stored."


class InvalidMapping(RuntallyError):
    code = "invalid_mapping"
    message = "A mapping is wrong."


class UnreadableFile(RuntallyError):
    code = "unreadable_file"
    message = "The file cannot be read."

"""The body of an ingest request: fields, types and constraints. The OpenAPI document is generated from these types.

Money and other numbers stay raw bytes here: they are decoded as exact decimals later, and a string is never accepted as
a number. `prompt` and `completion` are raw as well, so that content is never decoded.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from runtally.fields import (
    Amount,
    Count,
    Id,
    Label,
    Metadata,
    Moment,
    Name,
    Preview,
    ProjectId,
    Quantity,
    Tags,
    Text,
    Tier,
    Units,
    camel,
)
from runtally.models.run import CostSource, Status
from runtally.units import FURTHER_UNITS, TOKEN_KINDS


class WireTokens(msgspec.Struct, frozen=True):
    """Legacy token counts."""

    input: Quantity | UnsetType = UNSET
    output: Quantity | UnsetType = UNSET


class WireRun(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """A run in an ingest request. Unknown fields are ignored, because an SDK may be newer than the server."""

    provider: Name
    model: Name
    id: Text | None = None
    prompt: msgspec.Raw | UnsetType = UNSET
    completion: msgspec.Raw | UnsetType = UNSET
    tokens: WireTokens | None = None
    cost: Amount | UnsetType = UNSET
    latency: Quantity | UnsetType = UNSET
    timestamp: Moment | None = None
    metadata: Metadata | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    audio_input_tokens: Count | None = None
    audio_output_tokens: Count | None = None
    units: Units | None = None
    service_tier: Tier | None = None
    region: Label | None = None
    cost_usd: Amount | UnsetType = UNSET
    latency_ms: Count | None = None
    time_to_first_token_ms: Count | None = None
    status: Status | None = None
    error_code: Text | None = None
    finish_reason: Label | None = None
    prompt_hash: Text | None = None
    prompt_preview: Preview | None = None
    experiment_id: Id | None = None
    trace_id: Id | None = None
    session_id: Id | None = None
    user_id: Id | None = None
    tags: Tags | None = None
    idempotency_key: Text | None = None
    run_id: Id | None = None
    cost_source: CostSource | None = None
    cost_estimated: bool | None = None


class Envelope(msgspec.Struct, frozen=True, rename=camel):
    """The part of a request that is decoded first: its project, and whether it is a batch."""

    project_id: msgspec.Raw | UnsetType = UNSET
    runs: msgspec.Raw | UnsetType = UNSET


class SingleRun(WireRun, frozen=True, rename=camel, kw_only=True):
    """The body of a request with one run."""

    project_id: ProjectId


class Batch(msgspec.Struct, frozen=True, rename=camel):
    """The body of a request with many runs of one project. All are stored or, if one of them is wrong, none."""

    project_id: ProjectId
    runs: Annotated[list[WireRun], Meta(min_length=1)]


MEANING = {
    "provider": "Provider of the model. For a routing aggregator such as openrouter, its own cost is trusted.",
    "model": "Model, as the provider calls it.",
    "id": "The client's own id of the run; kept as clientId, and no key.",
    "prompt": "Must not be sent: it is dropped unread, or refused if the server is set to.",
    "completion": "Must not be sent: it is dropped unread, or refused if the server is set to.",
    "tokens": "Legacy; inputTokens and outputTokens win.",
    "cost": "Legacy cost in US dollars; costUSD wins.",
    "latency": "Legacy latency in milliseconds, rounded; latencyMs wins.",
    "timestamp": "When the call was made: ISO 8601 (UTC if it has no offset), or Unix seconds or milliseconds in a string. "
    "Not before 2020, at most 24 hours in the future; when missing, the time of receipt.",
    "metadata": "Free-form, at most 16 KiB and 5 levels deep, without NUL. Keys that name content, such as `messages`, are dropped.",
    **{camel(kind.count_column): kind.sent for kind in TOKEN_KINDS},
    "units": "Counts of what else the vendor charges for, by name: "
    + ", ".join(unit.name for unit in FURTHER_UNITS)
    + ". Other names are kept, without a price.",
    "serviceTier": "Service tier that the vendor charged, such as batch, flex or priority; kept in lower case.",
    "region": "Region in which the vendor processed the call, such as us, where its price depends on that.",
    "costUSD": "Cost in US dollars, as the client knows it; the server computes its own wherever it has a price.",
    "latencyMs": "Latency in milliseconds.",
    "timeToFirstTokenMs": "Milliseconds until the first token of a streamed answer; when missing, metadata.timeToFirstTokenMs.",
    "status": "How the run ended; when missing, error if there is an errorCode, else success.",
    "errorCode": "Error code.",
    "finishReason": "Why the model stopped, such as stop or length; when missing, metadata.finishReason.",
    "promptHash": "Hash of the prompt, made by the client; better than a preview.",
    "promptPreview": "Start of the prompt. Leave it out wherever privacy comes first.",
    "experimentId": "Experiment that the run belongs to.",
    "traceId": "Trace that the run belongs to; wins over metadata.traceId.",
    "sessionId": "Session or conversation that the run belongs to; when missing, metadata.session, sessionId or session_id.",
    "userId": "User that the call was made for, as your own system names them; when missing, metadata.user, userId or user_id.",
    "tags": "Labels of the run, each counted once; when missing, metadata.tags.",
    "idempotencyKey": "Kept, and not enforced; runId is what makes a run unique.",
    "runId": "Identity of the run within its project, for ever: a second run of that id changes nothing.",
    "costSource": "Accepted and not believed: the server says where a cost comes from.",
    "costEstimated": "Accepted and not believed: the server says whether a cost is an estimate.",
    "projectId": "Project that the runs belong to; made by its first run.",
    "runs": "The runs, in the order of the ids answered.",
}
"""A description of each field, by its wire name. The types say which values are allowed."""

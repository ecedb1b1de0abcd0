"""All formats, that of Runtally itself among them, and how a file is recognised: by the columns of its first row."""

from collections.abc import Iterator, Mapping

from runtally.client.formats import batches, gateways, reports, tracers
from runtally.client.formats.declaration import Format, Row, by_name, filled, parsed
from runtally.spreadsheets import unguarded

# Another server computes these, or gives its own.
_OWN_COMPUTED = frozenset({
    "costestimated", "costisminimum", "withoutusage", "cachesavingsusd", "priceentryid", "keyid", "version", "projectid",
})  # fmt: skip
_OWN_FIELDS = (
    "provider", "model", "status", "errorCode", "finishReason", "inputTokens", "outputTokens", "cachedInputTokens",
    "cacheWriteTokens", "reasoningTokens", "audioInputTokens", "audioOutputTokens", "serviceTier", "region", "latencyMs",
    "timeToFirstTokenMs", "experimentId", "traceId", "sessionId", "userId", "promptHash", "idempotencyKey",
)  # fmt: skip


def _read_own(row: Row) -> Iterator[Row]:
    """What Runtally itself exports, as CSV and JSON lines: each run keeps its id, so that a run that is there already stays one."""
    if isinstance(row.get("version"), str):
        # CSV, where a spreadsheet must not take text for a formula.
        row = {name: unguarded(value) if isinstance(value, str) else value for name, value in row.items()}
    # What Runtally computed is no report of anybody's: the server computes it from its own prices.
    reported = row.get("reportedcostusd")
    if reported in (None, "") and row.get("costsource") != "catalog":
        reported = row.get("costusd")
    yield filled(
        runId=row.get("id"),
        id=row.get("clientid"),
        timestamp=row.get("occurredat"),
        costUSD=reported,
        units=parsed(row.get("units")),
        tags=parsed(row.get("tags")),
        metadata=parsed(row.get("metadata")),
        **{name: row.get(name.lower()) for name in _OWN_FIELDS},
    )


OWN = Format(
    "runtally", "an export of Runtally", frozenset({"projectid", "id", "occurredat", "costsource", "createdat"}), _read_own,
    known=_OWN_COMPUTED | {"costusd", "reportedcostusd"} | {name.lower() for name in _OWN_FIELDS},
)  # fmt: skip


FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        OWN,
        tracers.LANGFUSE,
        tracers.LANGSMITH,
        gateways.LITELLM,
        tracers.MLFLOW,
        tracers.POSTHOG,
        tracers.BRAINTRUST,
        tracers.OPIK,
        tracers.PHOENIX,
        tracers.WEAVE,
        gateways.HELICONE,
        gateways.CURSOR,
        gateways.OPENROUTER_CALLS,
        gateways.OPENROUTER_ACTIVITY,
        batches.OPENAI_BATCH,
        batches.ANTHROPIC_BATCH,
        batches.GEMINI_BATCH,
        batches.VERTEX_BATCH,
        batches.BEDROCK_BATCH,
        reports.OPENAI_USAGE,
        reports.OPENAI_COSTS,
        reports.ANTHROPIC_USAGE,
        reports.ANTHROPIC_COSTS,
        reports.ANALYTICS,
        reports.CONSOLE_USAGE,
        reports.CONSOLE_COSTS,
    )
}
COLUMNS = "columns"
"""The name for files that are of none of them: their columns are the fields of runs, or are mapped to them."""


def recognised(row: Row) -> Format | None:
    """Return the format that the columns of a row are those of; None if they are those of none."""
    names = by_name(row).keys()
    return next((each for each in FORMATS.values() if each.columns <= names), None)

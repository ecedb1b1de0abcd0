"""What Runtally itself exports, as CSV and JSON lines: each run keeps its id, so that a run that is there already stays one."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, filled, parsed
from runtally.spreadsheets import unguarded

# Another server computes these, or gives its own.
_COMPUTED = frozenset({
    "costestimated", "costisminimum", "withoutusage", "cachesavingsusd", "priceentryid", "keyid", "version", "projectid",
})  # fmt: skip
_SAME = (
    "provider", "model", "status", "errorCode", "finishReason", "inputTokens", "outputTokens", "cachedInputTokens",
    "cacheWriteTokens", "reasoningTokens", "audioInputTokens", "audioOutputTokens", "serviceTier", "region", "latencyMs",
    "timeToFirstTokenMs", "experimentId", "traceId", "sessionId", "userId", "promptHash", "idempotencyKey",
)  # fmt: skip


def _read(row: Row) -> Iterator[Row]:
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
        **{name: row.get(name.lower()) for name in _SAME},
    )


OWN = Format(
    "runtally", "an export of Runtally", frozenset({"projectid", "id", "occurredat", "costsource", "createdat"}), _read,
    known=_COMPUTED | {"costusd", "reportedcostusd"} | {name.lower() for name in _SAME},
)  # fmt: skip

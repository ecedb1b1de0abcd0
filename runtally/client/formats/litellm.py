"""LiteLLM's spend logs: the table `LiteLLM_SpendLogs` of its proxy. Cached and reasoning tokens are inside `metadata` alone."""

from collections.abc import Iterator

from runtally.client.formats.declaration import (
    Format,
    Row,
    at,
    count,
    error_code,
    filled,
    milliseconds,
    number,
    parsed,
)  # fmt: skip


def _read(row: Row) -> Iterator[Row]:
    metadata = row.get("metadata")
    usage = at(metadata, "usage_object")
    given, answered = at(usage, "prompt_tokens_details"), at(usage, "completion_tokens_details")
    has_failed = row.get("status") == "failure"
    start, took = row.get("starttime"), count(row.get("requestdurationms"))
    spend = number(row.get("spend"))
    is_kept = str(row.get("cachehit")).casefold() == "true"
    yield filled(
        runId=row.get("requestid"),
        provider=row.get("customllmprovider"),
        model=row.get("model") or row.get("modelgroup"),
        timestamp=start,
        status="error" if has_failed else "success",
        errorCode=error_code(
            at(metadata, "error_information", "error_code"), at(metadata, "error_information", "error_class")
        )
        if has_failed
        else None,
        inputTokens=None if has_failed else row.get("prompttokens"),
        outputTokens=None if has_failed else row.get("completiontokens"),
        cachedInputTokens=count(at(given, "cached_tokens")) or count(at(usage, "cache_read_input_tokens")),
        cacheWriteTokens=count(at(usage, "cache_creation_input_tokens")) or count(at(given, "cache_write_tokens")),
        audioInputTokens=count(at(given, "audio_tokens")),
        reasoningTokens=count(at(answered, "reasoning_tokens")),
        audioOutputTokens=count(at(answered, "audio_tokens")),
        latencyMs=took or milliseconds(start, row.get("endtime")),
        timeToFirstTokenMs=milliseconds(start, row.get("completionstarttime")),
        # An answer from the proxy's own cache was not paid for.
        costUSD=spend if spend or is_kept else None,
        sessionId=row.get("sessionid"),
        userId=row.get("enduser") or row.get("user"),
        tags=parsed(row.get("requesttags")),
        metadata=filled(
            team=row.get("teamid"),
            callType=row.get("calltype"),
            cacheHit=is_kept or None,
            # The server reads what else a vendor charges for, such as searches and writes for an hour.
            usage=usage if isinstance(usage, dict) and not has_failed else None,
        ),
    )


LITELLM = Format(
    "litellm", "LiteLLM's spend logs", frozenset({"requestid", "calltype", "spend"}), _read,
    known=frozenset({
        "starttime", "endtime", "completionstarttime", "requestdurationms", "prompttokens", "completiontokens", "totaltokens",
    }),
)  # fmt: skip

"""LangSmith's runs: those of the type `llm` are calls; a chain repeats the sums of its calls."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, error_code, filled, milliseconds, parsed


def _read(row: Row) -> Iterator[Row]:
    if row.get("runtype") != "llm":
        return
    about = parsed(at(row.get("extra"), "metadata")) or {}
    start, given, answered = row.get("starttime"), row.get("prompttokendetails"), row.get("completiontokendetails")
    has_failed = bool(row.get("error")) or row.get("status") == "error"
    yield filled(
        runId=row.get("id"),
        provider=about.get("ls_provider"),
        model=about.get("ls_model_name") or at(row.get("extra"), "invocation_params", "model"),
        timestamp=start,
        status="error" if has_failed else "success",
        errorCode=error_code(row.get("error")) if has_failed else None,
        inputTokens=row.get("prompttokens"),
        outputTokens=row.get("completiontokens"),
        cachedInputTokens=at(given, "cache_read"),
        cacheWriteTokens=at(given, "cache_creation"),
        audioInputTokens=at(given, "audio"),
        reasoningTokens=at(answered, "reasoning"),
        audioOutputTokens=at(answered, "audio"),
        latencyMs=milliseconds(start, row.get("endtime")),
        timeToFirstTokenMs=milliseconds(start, row.get("firsttokentime")),
        costUSD=row.get("totalcost"),
        traceId=row.get("traceid"),
        sessionId=about.get("session_id") or about.get("thread_id") or about.get("conversation_id"),
        userId=about.get("user_id"),
        tags=row.get("tags"),
    )


LANGSMITH = Format(
    "langsmith", "LangSmith's runs", frozenset({"runtype", "starttime", "traceid"}), _read,
    known=frozenset({
        "endtime", "firsttokentime", "prompttokens", "completiontokens", "totaltokens", "prompttokendetails",
        "completiontokendetails", "totalcost", "promptcost", "completioncost", "promptcostdetails",
        "completioncostdetails", "lastqueuedat",
    }),
)  # fmt: skip

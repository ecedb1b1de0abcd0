"""Langfuse's observations: the answer of its API, and its export to a bucket with the same columns in snake case.

Generations and embeddings are calls, all other types are not. Keys of the usage that begin with `input` or `output` are
parts beside each other, so a whole is their sum.
"""

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

_CALLS = frozenset({"GENERATION", "EMBEDDING"})


def _read(row: Row) -> Iterator[Row]:
    if row.get("type") not in _CALLS:
        return
    usage = parsed(row.get("usagedetails")) or {}
    parts = {name: count(value) or 0 for name, value in usage.items() if name != "total"}
    has_failed = row.get("level") == "ERROR"
    start, first = row.get("starttime"), number(row.get("timetofirsttoken")) * 1000
    yield filled(
        runId=row.get("id"),
        model=row.get("model") or row.get("providedmodelname"),
        timestamp=start,
        status="error" if has_failed else "success",
        errorCode=error_code(row.get("statusmessage")) if has_failed else None,
        inputTokens=_sum(parts, "input"),
        outputTokens=_sum(parts, "output"),
        cachedInputTokens=_sum(parts, "input", "cached", "cache_read"),
        cacheWriteTokens=_sum(parts, "input", "cache_creation", "cache_write"),
        reasoningTokens=_sum(parts, "output", "reasoning"),
        audioInputTokens=_sum(parts, "input", "audio"),
        audioOutputTokens=_sum(parts, "output", "audio"),
        units=filled(cacheWrite1h=_sum(parts, "input", "1h")),
        latencyMs=milliseconds(start, row.get("endtime")),
        timeToFirstTokenMs=milliseconds(start, row.get("completionstarttime")) or (round(first) if first else None),
        costUSD=row.get("totalcost") or row.get("calculatedtotalcost") or at(row.get("costdetails"), "total"),
        traceId=row.get("traceid"),
        sessionId=row.get("sessionid"),
        userId=row.get("userid"),
        tags=row.get("tags"),
    )


def _sum(parts: dict[str, int], whole: str, *kinds: str) -> int | None:
    names = [name for name in parts if name.startswith(whole) and (not kinds or any(kind in name for kind in kinds))]
    return sum(parts[name] for name in names) or None


LANGFUSE = Format(
    "langfuse", "Langfuse's observations", frozenset({"type", "starttime", "usagedetails"}), _read,
    known=frozenset({
        "endtime", "completionstarttime", "timetofirsttoken", "latency", "totalcost", "calculatedtotalcost", "costdetails",
        "createdat", "updatedat", "usage", "inputprice", "outputprice", "totalprice", "inputcost", "outputcost",
        "inputusage", "outputusage", "totalusage", "calculatedinputcost", "calculatedoutputcost",
    }),
)  # fmt: skip

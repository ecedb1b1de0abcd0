"""Helicone's requests as CSV: the status of the answer says whether a call failed, and the latency is in milliseconds."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, count, filled

_OK, _REDIRECT = 200, 300


def _read(row: Row) -> Iterator[Row]:
    status = count(row.get("responsestatus"))
    has_failed = status is not None and not _OK <= status < _REDIRECT
    yield filled(
        runId=row.get("requestid") or row.get("responseid"),
        provider=str(row.get("provider") or "").lower(),
        model=row.get("responsemodel") or row.get("model") or row.get("requestmodel"),
        timestamp=row.get("requestcreatedat"),
        status="error" if has_failed else "success",
        errorCode=str(status) if has_failed else None,
        inputTokens=count(row.get("prompttokens")),
        outputTokens=count(row.get("completiontokens")),
        cachedInputTokens=count(row.get("promptcachereadtokens")),
        cacheWriteTokens=count(row.get("promptcachewritetokens")),
        latencyMs=count(row.get("latency") or row.get("delayms")),
        timeToFirstTokenMs=count(row.get("timetofirsttoken")),
        costUSD=row.get("costusd") or row.get("cost"),
        userId=row.get("userid") or row.get("requestuserid"),
    )


HELICONE = Format(
    "helicone", "Helicone's requests", frozenset({"responsestatus", "requestcreatedat"}), _read,
    known=frozenset({
        "latency", "delayms", "timetofirsttoken", "prompttokens", "completiontokens", "totaltokens", "cost", "costusd",
        "promptcachereadtokens", "promptcachewritetokens", "responsecreatedat",
    }),
)  # fmt: skip

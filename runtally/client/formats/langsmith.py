"""LangSmith's runs: those of the type `llm` are calls; a chain repeats the sums of its calls."""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, error_code, filled, milliseconds, parsed
from runtally.vendor_usage import tokens_of


def _read(row: Row) -> Iterator[Row]:
    if row.get("runtype") != "llm":
        return
    about = parsed(at(row.get("extra"), "metadata")) or {}
    start = row.get("starttime")
    # LangChain's counts under other names.
    usage = {
        "input_tokens": row.get("prompttokens"),
        "output_tokens": row.get("completiontokens"),
        "input_token_details": parsed(row.get("prompttokendetails")),
        "output_token_details": parsed(row.get("completiontokendetails")),
    }
    has_failed = bool(row.get("error")) or row.get("status") == "error"
    yield filled(
        **tokens_of(usage),
        runId=row.get("id"),
        provider=about.get("ls_provider"),
        model=about.get("ls_model_name") or at(row.get("extra"), "invocation_params", "model"),
        timestamp=start,
        status="error" if has_failed else "success",
        errorCode=error_code(row.get("error")) if has_failed else None,
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

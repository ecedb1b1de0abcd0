"""Files of those through whom calls go: Cursor, Helicone, LiteLLM and OpenRouter."""

from collections.abc import Iterator

from runtally.client.formats.declaration import (
    Format,
    Row,
    at,
    count,
    error_code,
    filled,
    milliseconds,
    moment,
    number,
    parsed,
)  # fmt: skip
from runtally.fields import MAX_NAME
from runtally.vendor_usage import tier_of, tokens_of

_OK, _REDIRECT = 200, 300


def _read_helicone(row: Row) -> Iterator[Row]:
    """Helicone's requests as CSV: the status of the answer says whether a call failed, and the latency is in milliseconds."""
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
    "helicone", "Helicone's requests", frozenset({"responsestatus", "requestcreatedat"}), _read_helicone,
    known=frozenset({
        "latency", "delayms", "timetofirsttoken", "prompttokens", "completiontokens", "totaltokens", "cost", "costusd",
        "promptcachereadtokens", "promptcachewritetokens", "responsecreatedat",
    }),
)  # fmt: skip


_PARTS = ("cachedInputTokens", "cacheWriteTokens", "reasoningTokens", "audioInputTokens", "audioOutputTokens")


def _read_litellm(row: Row) -> Iterator[Row]:
    """LiteLLM's spend logs: the table `LiteLLM_SpendLogs` of its proxy. Cached and reasoning tokens are inside `metadata` alone."""
    metadata = row.get("metadata")
    usage = at(metadata, "usage_object")
    has_failed = row.get("status") == "failure"
    start, took = row.get("starttime"), count(row.get("requestdurationms"))
    spend = number(row.get("spend"))
    is_kept = str(row.get("cachehit")).casefold() == "true"
    request, first = str(row.get("requestid") or ""), row.get("completionstarttime")
    # What the proxy refused by itself has no vendor.
    provider = str(row.get("customllmprovider") or ("litellm" if has_failed else ""))
    counts = {"inputTokens": row.get("prompttokens"), "outputTokens": row.get("completiontokens")}
    yield filled(
        **({} if has_failed else counts | {name: tokens_of(usage).get(name) for name in _PARTS}),
        # The id of an answer of Responses is encoded, and may be longer than that of a run.
        runId=request if len(request) <= MAX_NAME else row.get("litellmcallid"),
        provider=provider,
        model=str(row.get("model") or row.get("modelgroup") or "").removeprefix(f"{provider}/"),
        timestamp=start,
        status="error" if has_failed else "success",
        errorCode=error_code(
            at(metadata, "error_information", "error_code"), at(metadata, "error_information", "error_class")
        )
        if has_failed
        else None,
        latencyMs=took or milliseconds(start, row.get("endtime")),
        # An answer that is no stream began when it ended.
        timeToFirstTokenMs=milliseconds(start, first) if milliseconds(first, row.get("endtime")) else None,
        serviceTier=tier_of(at(metadata, "cost_breakdown", "service_tier")),
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
    "litellm", "LiteLLM's spend logs", frozenset({"requestid", "calltype", "spend"}), _read_litellm,
    known=frozenset({
        "starttime", "endtime", "completionstarttime", "requestdurationms", "prompttokens", "completiontokens", "totaltokens",
    }),
)  # fmt: skip


def _read_openrouter_call(row: Row) -> Iterator[Row]:
    """The file of single calls of OpenRouter's console."""
    has_failed = str(row.get("cancelled")).casefold() == "true"
    yield filled(
        runId=row["generationid"],
        provider="openrouter",
        model=row.get("modelpermaslug") or row.get("model"),
        timestamp=row.get("createdat"),
        status="error" if has_failed else "success",
        errorCode="cancelled" if has_failed else None,
        finishReason=row.get("finishreasonnormalized") or row.get("finishreason"),
        inputTokens=row.get("tokensprompt"),
        outputTokens=row.get("tokenscompletion"),
        cachedInputTokens=count(row.get("tokenscached")),
        reasoningTokens=count(row.get("tokensreasoning")),
        latencyMs=count(row.get("generationtimems")),
        timeToFirstTokenMs=count(row.get("timetofirsttokenms")),
        costUSD=row.get("costtotal"),
        userId=row.get("user"),
        metadata=filled(app=row.get("appname"), upstream=row.get("providername")),
    )


def _read_openrouter_day(row: Row) -> Iterator[Row]:
    """OpenRouter's activity by day, model and endpoint, which is sums."""
    yield filled(
        provider="openrouter",
        model=row.get("modelpermaslug") or row.get("model"),
        period=(moment(row["date"]), None),
        requests=count(row.get("requests")),
        inputTokens=count(row.get("prompttokens")),
        outputTokens=count(row.get("completiontokens")),
        # Of answers out of OpenRouter's own cache they may be more than the prompt.
        cachedInputTokens=min(number(row.get("cachedtokens")), number(row.get("prompttokens"))) or None,
        reasoningTokens=count(row.get("reasoningtokens")),
        # What was paid to OpenRouter, and to the providers with keys of one's own.
        costUSD=number(row.get("usage")) + number(row.get("byokusageinference")),
    )


OPENROUTER_CALLS = Format(
    "openrouter-calls", "OpenRouter's calls", frozenset({"generationid", "tokensprompt", "costtotal"}), _read_openrouter_call,
    known=frozenset({
        "createdat", "tokenscompletion", "tokensreasoning", "tokenscached", "generationtimems", "timetofirsttokenms",
        "costcache", "costwebsearch", "costfileprocessing",
    }),
)  # fmt: skip
OPENROUTER_ACTIVITY = Format(
    "openrouter-activity", "OpenRouter's activity", frozenset({"date", "usage", "byokusageinference"}), _read_openrouter_day,
    known=frozenset({"requests", "prompttokens", "completiontokens", "cachedtokens", "reasoningtokens"}), is_of_sums=True,
)  # fmt: skip


def _read_cursor(row: Row) -> Iterator[Row]:
    """What the dashboard of Cursor exports. Its three columns of input are beside each other, as the total says, whatever their names say."""
    plain, written, read = (
        count(row.get(name)) or 0 for name in ("inputwocachewrite", "inputwcachewrite", "cacheread")
    )
    kind = str(row.get("kind") or "")
    has_failed = kind.startswith(("Errored", "Aborted"))
    yield filled(
        provider="cursor",
        model=row.get("model"),
        timestamp=row.get("date"),
        status="error" if has_failed else "success",
        errorCode=kind.partition(",")[0].lower() if has_failed else None,
        inputTokens=plain + written + read or None,
        cachedInputTokens=read or None,
        cacheWriteTokens=written or None,
        outputTokens=count(row.get("outputtokens")),
        # It may be a word, such as Included.
        costUSD=number(str(row.get("cost")).lstrip("$")) or None,
        userId=row.get("user"),
        metadata=filled(kind=kind),
    )


CURSOR = Format(
    "cursor", "Cursor's usage", frozenset({"date", "inputwcachewrite", "inputwocachewrite", "cacheread"}), _read_cursor,
    known=frozenset({"outputtokens", "totaltokens", "cost"}),
)  # fmt: skip

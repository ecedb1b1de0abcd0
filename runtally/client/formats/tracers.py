"""Files of tools that record calls: Braintrust, Langfuse, LangSmith, MLflow, Opik, Phoenix, PostHog and Weave."""

from collections.abc import Iterator
from datetime import timedelta

from runtally.client.fields import squashed
from runtally.client.formats.declaration import (
    Format,
    Number,
    Row,
    at,
    count,
    error_code,
    filled,
    milliseconds,
    moment,
    number,
    parsed,
    table,
)  # fmt: skip
from runtally.vendor_usage import tier_of, tokens_of

_LANGFUSE_CALLS = ("GENERATION", "EMBEDDING")


def _read_langfuse(row: Row) -> Iterator[Row]:
    """Langfuse's observations: the answer of its API, and its export to a bucket with the same columns in snake case.

    Generations and embeddings are calls, all other types are not. Keys of the usage that begin with `input` or `output` are
    parts beside each other, so a whole is their sum.
    """
    if row.get("type") not in _LANGFUSE_CALLS:
        return
    usage = table(row.get("usagedetails"))
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


def _sum(parts: dict[str, Number], whole: str, *kinds: str) -> Number | None:
    names = [name for name in parts if name.startswith(whole) and (not kinds or any(kind in name for kind in kinds))]
    return sum(parts[name] for name in names) or None


LANGFUSE = Format(
    "langfuse", "Langfuse's observations", frozenset({"type", "starttime", "usagedetails"}), _read_langfuse,
    known=frozenset({
        "endtime", "completionstarttime", "timetofirsttoken", "latency", "totalcost", "calculatedtotalcost", "costdetails",
        "createdat", "updatedat", "usage", "inputprice", "outputprice", "totalprice", "inputcost", "outputcost",
        "inputusage", "outputusage", "totalusage", "calculatedinputcost", "calculatedoutputcost",
    }),
)  # fmt: skip


def _read_langsmith(row: Row) -> Iterator[Row]:
    """LangSmith's runs: those of the type `llm` are calls; a chain repeats the sums of its calls."""
    if row.get("runtype") != "llm":
        return
    about = table(at(row.get("extra"), "metadata"))
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
    "langsmith", "LangSmith's runs", frozenset({"runtype", "starttime", "traceid"}), _read_langsmith,
    known=frozenset({
        "endtime", "firsttokentime", "prompttokens", "completiontokens", "totaltokens", "prompttokendetails",
        "completiontokendetails", "totalcost", "promptcost", "completioncost", "promptcostdetails",
        "completioncostdetails", "lastqueuedat",
    }),
)  # fmt: skip


_MLFLOW_CALLS = ("CHAT_MODEL", "LLM", "EMBEDDING")


def _read_mlflow(row: Row) -> Iterator[Row]:
    """MLflow's `search_traces()`: calls are spans in the JSON of a trace, and values of their attributes are JSON once more.

    The usage that MLflow keeps has no cache writes for OpenAI and no reasoning.
    """
    spans = at(row.get("trace"), "data", "spans") or parsed(row.get("spans")) or []
    calls = [
        span
        for span in (spans if isinstance(spans, list) else ())
        if parsed(at(span, "attributes", "mlflow.spanType")) in _MLFLOW_CALLS
    ]
    # A call of Gemini is two spans, one inside the other, as is one of a framework around an SDK.
    outer = {str(at(span, "parent_span_id")) for span in calls}
    for span in calls:
        if str(at(span, "span_id")) in outer:
            continue
        attributes = at(span, "attributes")
        usage = parsed(at(attributes, "mlflow.chat.tokenUsage"))
        has_failed = str(at(span, "status", "code")).endswith("ERROR")
        start, end = count(at(span, "start_time_unix_nano")), count(at(span, "end_time_unix_nano"))
        yield filled(
            runId=f"{at(span, 'trace_id')}-{at(span, 'span_id')}",
            provider=parsed(at(attributes, "mlflow.llm.provider")),
            model=parsed(at(attributes, "mlflow.llm.model") or at(attributes, "model"))
            or at(attributes, "mlflow.spanInputs", "model"),
            timestamp=start // 1_000_000 if start else row.get("requesttime"),
            status="error" if has_failed else "success",
            errorCode=error_code(at(span, "status", "message")) if has_failed else None,
            inputTokens=at(usage, "input_tokens"),
            # Gemini's thoughts are in the total alone.
            outputTokens=_with_rest(*(count(at(usage, f"{name}_tokens")) for name in ("input", "output", "total"))),
            cachedInputTokens=at(usage, "cache_read_input_tokens"),
            cacheWriteTokens=at(usage, "cache_creation_input_tokens"),
            units=filled(cacheWrite1h=count(at(usage, "cache_creation_input_tokens_above_1hr"))),
            latencyMs=(end - start) // 1_000_000 if start and end and end >= start else None,
            traceId=row.get("traceid"),
            sessionId=at(row.get("tracemetadata"), "mlflow.trace.session"),
            userId=at(row.get("tracemetadata"), "mlflow.trace.user"),
        )


def _with_rest(given: Number | None, gave: Number | None, total: Number | None) -> Number | None:
    return max(gave, (total or 0) - (given or 0)) if gave else gave


MLFLOW = Format(
    "mlflow", "MLflow's traces", frozenset({"traceid", "trace", "spans"}), _read_mlflow,
    known=frozenset({"requesttime", "executionduration"}),
)  # fmt: skip


_POSTHOG_CALLS = ("$ai_generation", "$ai_embedding")


def _read_posthog(row: Row) -> Iterator[Row]:
    """PostHog's events: those of the kinds `$ai_generation` and `$ai_embedding` are calls, and `$ai_usage` has the vendor's own counts."""
    if row.get("event") not in _POSTHOG_CALLS:
        return
    about = table(row.get("properties"))
    took, ended = about.get("$ai_latency"), moment(row.get("timestamp"))
    has_failed = bool(about.get("$ai_is_error"))
    yield filled(
        **{"serviceTier": tier_of(about.get("$ai_service_tier")), **(tokens_of(about.get("$ai_usage")) or _posthog_counts(about))},
        runId=row.get("uuid") or row.get("id"),
        provider=about.get("$ai_provider"),
        model=about.get("$ai_model"),
        # An event is captured once the call has ended.
        timestamp=(ended - timedelta(seconds=float(number(took)))).isoformat() if ended else None,
        status="error" if has_failed else "success",
        errorCode=str(about.get("$ai_http_status") or "error") if has_failed else None,
        latencyMs=None if took is None else round(number(took) * 1000),
        timeToFirstTokenMs=round(number(about.get("$ai_time_to_first_token")) * 1000) or None,
        costUSD=about.get("$ai_total_cost_usd"),
        traceId=about.get("$ai_trace_id"),
        sessionId=about.get("$ai_session_id"),
        # Without a person the id of the trace stands there.
        userId=None if about.get("$process_person_profile") is False else row.get("distinctid"),
        finishReason=about.get("$ai_stop_reason"),
    )  # fmt: skip


def _posthog_counts(about: Row) -> Row:
    """Return the counts of packages that do not send `$ai_usage` yet."""
    is_beside = about.get("$ai_cache_reporting_exclusive", about.get("$ai_provider") == "anthropic")
    read, written = about.get("$ai_cache_read_input_tokens"), about.get("$ai_cache_creation_input_tokens")
    return tokens_of({
        "input_tokens": about.get("$ai_input_tokens"),
        "output_tokens": about.get("$ai_output_tokens"),
        "output_token_details": {"reasoning": about.get("$ai_reasoning_tokens")},
        **({"cache_read_input_tokens": read, "cache_creation_input_tokens": written} if is_beside else {}),
        "input_token_details": None if is_beside else {"cache_read": read, "cache_creation": written},
        "server_tool_use": {"web_search_requests": about.get("$ai_web_search_count")},
    })  # fmt: skip


POSTHOG = Format(
    "posthog", "PostHog's events", frozenset({"event", "properties", "distinctid", "timestamp"}), _read_posthog
)


def _read_braintrust(row: Row) -> Iterator[Row]:
    """Braintrust's spans: those of the types `llm` and `decision` are calls. A failed one may have neither an error nor counts."""
    metrics, about = table(row.get("metrics")), table(row.get("metadata"))
    kind, provider = at(row.get("spanattributes"), "type"), about.get("provider")
    if kind not in ("llm", "decision"):
        return
    long, short = (count(metrics.get(f"prompt_cache_creation_{kind}_tokens")) or 0 for kind in ("1h", "5m"))
    start, end = (number(metrics.get(name)) for name in ("start", "end"))
    yield filled(
        runId=row.get("spanid"),
        # A decision has a price of its own.
        provider=f"{provider}-decisions" if provider and kind == "decision" else provider,
        model=about.get("model"),
        timestamp=row.get("created"),
        status="error" if row.get("error") else "success",
        errorCode=error_code(row.get("error")) if row.get("error") else None,
        inputTokens=count(metrics.get("prompt_tokens")),
        outputTokens=count(metrics.get("completion_tokens")),
        cachedInputTokens=count(metrics.get("prompt_cached_tokens")),
        cacheWriteTokens=count(metrics.get("prompt_cache_creation_tokens")) or long + short or None,
        reasoningTokens=count(metrics.get("completion_reasoning_tokens")),
        units=filled(cacheWrite1h=long or None, webSearch=count(metrics.get("server_tool_use_web_search_requests"))),
        serviceTier=tier_of(about.get("usage_service_tier") or about.get("service_tier")),
        latencyMs=round((end - start) * 1000) if start and end >= start else None,
        timeToFirstTokenMs=round(number(metrics.get("time_to_first_token")) * 1000) or None,
        traceId=row.get("rootspanid"),
    )


BRAINTRUST = Format(
    "braintrust", "Braintrust's spans", frozenset({"spanattributes", "metrics", "rootspanid"}), _read_braintrust
)


def _read_opik(row: Row) -> Iterator[Row]:
    """Opik's spans: those of the type `llm` are calls. The vendor's own counts are in `metadata`, or flattened in `usage`."""
    if row.get("type") != "llm":
        return
    usage = table(row.get("usage"))
    error = at(row.get("errorinfo"), "exception_type")
    yield filled(
        **{
            "serviceTier": tier_of(at(row.get("metadata"), "service_tier")),
            **tokens_of(at(row.get("metadata"), "usage") or usage),
        },
        runId=row.get("id"),
        # Behind a URL of one's own it is the host's name.
        provider=None if "." in str(row.get("provider")) else row.get("provider"),
        model=row.get("model"),
        timestamp=row.get("starttime"),
        status="error" if row.get("errorinfo") else "success",
        errorCode=str(error or "error") if row.get("errorinfo") else None,
        latencyMs=milliseconds(row.get("starttime"), row.get("endtime")),
        timeToFirstTokenMs=count(row.get("ttft")),
        costUSD=row.get("totalestimatedcost"),
        traceId=row.get("traceid"),
        tags=row.get("tags"),
    )


OPIK = Format(
    "opik", "Opik's spans", frozenset({"type", "usage", "traceid", "totalestimatedcost"}), _read_opik,
    known=frozenset({"starttime", "endtime", "duration", "createdat", "lastupdatedat", "totalestimatedcostversion"}),
)  # fmt: skip


def _read_phoenix(row: Row) -> Iterator[Row]:
    """Phoenix's spans: the client's data frame with a column for each attribute, and its list with all of them in one."""
    attributes = parsed(row.get("attributes"))

    def of(name: str) -> object:
        return row.get(squashed(f"attributes.{name}")) or at(attributes, name)

    if row.get("spankind") not in ("LLM", "EMBEDDING"):
        return
    has_failed = row.get("statuscode") == "ERROR"
    began = moment(row.get("starttime"))
    yield filled(
        runId=row.get("contextspanid") or at(row.get("context"), "span_id"),
        provider=of("llm.provider") or of("llm.system"),
        # A failed call has no name of a model but in what was asked.
        model=of("llm.model_name") or of("embedding.model_name") or at(of("llm.invocation_parameters"), "model"),
        timestamp=began and began.isoformat(),
        status="error" if has_failed else "success",
        errorCode=error_code(row.get("statusmessage")) if has_failed else None,
        inputTokens=count(of("llm.token_count.prompt")),
        outputTokens=count(of("llm.token_count.completion")),
        cachedInputTokens=count(of("llm.token_count.prompt_details.cache_read")),
        cacheWriteTokens=count(of("llm.token_count.prompt_details.cache_write")),
        audioInputTokens=count(of("llm.token_count.prompt_details.audio")),
        reasoningTokens=count(of("llm.token_count.completion_details.reasoning")),
        latencyMs=milliseconds(row.get("starttime"), row.get("endtime")),
        traceId=row.get("contexttraceid") or at(row.get("context"), "trace_id"),
        sessionId=of("session.id"),
        userId=of("user.id"),
    )


PHOENIX = Format(
    "phoenix", "Phoenix's spans", frozenset({"spankind", "statuscode", "starttime", "parentid"}), _read_phoenix,
    known=frozenset({
        "endtime", *(squashed(f"attributes.llm.token_count.{name}") for name in (
            "prompt", "completion", "total", "prompt_details.cache_read", "prompt_details.cache_write", "prompt_details.audio",
            "completion_details.reasoning",
        )),
    }),
)  # fmt: skip


_WEAVE_VENDORS = frozenset({"anthropic", "cerebras", "cohere", "groq", "mistral", "openai"})


def _read_weave(row: Row) -> Iterator[Row]:
    """Weave's calls: those of the kind `llm` are calls of a model; a function around them repeats the sums of its calls."""
    if at(row.get("attributes"), "weave", "kind") != "llm":
        return
    usages = at(row.get("summary"), "usage")
    model = next(iter(usages), None) if isinstance(usages, dict) else None
    usage = at(usages, model) if model else {}
    read, written = (count(at(usage, f"cache_{kind}_input_tokens")) or 0 for kind in ("read", "creation"))
    if 0 < read + written <= (count(at(usage, "input_tokens")) or 0):
        # What was cached is in the input, though it has Anthropic's names, whose input leaves it out.
        inside = {"cache_read": read, "cache_creation": written}
        usage = {**usage, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "input_token_details": inside}
    maker, error = at(row.get("attributes"), "integration", "name"), row.get("exception")
    yield filled(
        **{"serviceTier": tier_of(at(row.get("output"), "service_tier")), **tokens_of(usage)},
        runId=row.get("id"),
        provider=maker if str(maker) in _WEAVE_VENDORS else None,
        # A failed call has no usage.
        model=model or at(row.get("inputs"), "model"),
        timestamp=row.get("startedat"),
        status="error" if error else "success",
        errorCode=error_code(at(error, "message"), at(error, "type"), error) if error else None,
        latencyMs=milliseconds(row.get("startedat"), row.get("endedat")),
        traceId=row.get("traceid"),
        sessionId=row.get("threadid"),
    )


WEAVE = Format(
    "weave", "Weave's calls", frozenset({"opname", "summary", "startedat", "traceid"}), _read_weave,
    known=frozenset({"endedat"}),
)  # fmt: skip

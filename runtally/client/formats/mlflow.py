"""MLflow's `search_traces()`: calls are spans in the JSON of a trace, and values of their attributes are JSON once more.

The usage that MLflow keeps has no cache writes for OpenAI and no reasoning.
"""

from collections.abc import Iterator

from runtally.client.formats.declaration import Format, Row, at, count, error_code, filled, parsed

_CALLS = frozenset({"CHAT_MODEL", "LLM", "EMBEDDING"})


def _read(row: Row) -> Iterator[Row]:
    spans = at(row.get("trace"), "data", "spans") or parsed(row.get("spans")) or []
    for span in spans if isinstance(spans, list) else ():
        attributes = at(span, "attributes")
        if parsed(at(attributes, "mlflow.spanType")) not in _CALLS:
            continue
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
            outputTokens=at(usage, "output_tokens"),
            cachedInputTokens=at(usage, "cache_read_input_tokens"),
            cacheWriteTokens=at(usage, "cache_creation_input_tokens"),
            units=filled(cacheWrite1h=count(at(usage, "cache_creation_input_tokens_above_1hr"))),
            latencyMs=(end - start) // 1_000_000 if start and end and end >= start else None,
            traceId=row.get("traceid"),
            sessionId=at(row.get("tracemetadata"), "mlflow.trace.session"),
            userId=at(row.get("tracemetadata"), "mlflow.trace.user"),
        )


MLFLOW = Format(
    "mlflow", "MLflow's traces", frozenset({"traceid", "trace", "spans"}), _read,
    known=frozenset({"requesttime", "executionduration"}),
)  # fmt: skip

"""PostHog's events: those of the kinds `$ai_generation` and `$ai_embedding` are calls, and `$ai_usage` has the vendor's own counts."""

from collections.abc import Iterator
from datetime import timedelta

from runtally.client.formats.declaration import Format, Row, filled, moment, number, parsed
from runtally.vendor_usage import tier_of, tokens_of

_KINDS = frozenset({"$ai_generation", "$ai_embedding"})


def _read(row: Row) -> Iterator[Row]:
    if row.get("event") not in _KINDS:
        return
    about = parsed(row.get("properties")) or {}
    took, ended = about.get("$ai_latency"), moment(row.get("timestamp"))
    has_failed = bool(about.get("$ai_is_error"))
    yield filled(
        **{"serviceTier": tier_of(about.get("$ai_service_tier")), **(tokens_of(about.get("$ai_usage")) or _counts(about))},
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


def _counts(about: Row) -> Row:
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


POSTHOG = Format("posthog", "PostHog's events", frozenset({"event", "properties", "distinctid", "timestamp"}), _read)

"""Exports of vendors and peers become runs with all their counts, and their reports of days sums that are never runs."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtally.client.files import Row, RowFile
from runtally.client.formats.declaration import by_name
from runtally.client.formats.registry import COLUMNS, FORMATS, recognised
from runtally.client.mapping import Options, parse_links
from runtally.client.rows import RowRejected, RunMaker
from runtally.client.run import InvalidMapping, as_text
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

CONTENT = ContentRule.of(PrivacyMode.STRICT, CONTENT_KEYS.split(","))
START, FIRST, END = "2026-11-25T10:00:00.000Z", "2026-11-25T10:00:00.200Z", "2026-11-25T10:00:01.566Z"
SAID = "canary-of-a-prompt"
NANOS = 1_795_600_800_000_000_000


def a_maker(row: dict[str, Any], *, takes_sums: bool = False, **options: Any) -> RunMaker:  # noqa: ANN401
    maker = RunMaker("p", Options(content=CONTENT, **options), takes_sums=takes_sums)
    maker.recognise(row)
    return maker


def runs_of(row: dict[str, Any], **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [json.loads(as_text(run)) for run in a_maker(row, **options).runs_of(row)]


def span(kind: str, code: str, **attributes: object) -> dict[str, Any]:
    return {
        "trace_id": "dHJhY2U=",
        "span_id": kind,
        "start_time_unix_nano": NANOS,
        "end_time_unix_nano": NANOS + 1_566_000_000,
        "status": {"code": code, "message": "RateLimitError: 429"},
        "attributes": {
            "mlflow.spanType": json.dumps(kind),
            "mlflow.spanInputs": json.dumps({"messages": SAID}),
            **{name.replace("__", "."): json.dumps(value) for name, value in attributes.items()},
        },
    }


CALLS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "runtally": (
        {
            "project_id": "shop",
            "id": "'=of a client",
            "occurred_at": START,
            "provider": "openai",
            "model": "gpt-5.6-sol",
            "status": "error",
            "error_code": "-1",
            "input_tokens": "10007",
            "units": '{"cacheWrite12h": 504}',
            "service_tier": "flex",
            "latency_ms": "1566",
            "cost_usd": "0.1911115",
            "cost_source": "catalog",
            "cost_estimated": "false",
            "cache_savings_usd": "0.01",
            "reported_cost_usd": "",
            "price_entry_id": "1154",
            "tags": '["a"]',
            "client_id": "c1",
            "prompt_preview": SAID,
            "metadata": '{"env": "production"}',
            "created_at": END,
            "version": "2",
        },
        [
            {
                "runId": "=of a client",
                "id": "c1",
                "provider": "openai",
                "model": "gpt-5.6-sol",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "error",
                "errorCode": "-1",
                "inputTokens": 10_007,
                "units": {"cacheWrite12h": 504},
                "serviceTier": "flex",
                "latencyMs": 1_566,
                "tags": ["a"],
                "metadata": {"env": "production"},
            }
        ],
    ),
    "langfuse": (
        {
            "id": "o1",
            "trace_id": "t1",
            "type": "GENERATION",
            "start_time": START,
            "end_time": END,
            "completion_start_time": FIRST,
            "level": "DEFAULT",
            "model": "gpt-5.5",
            "usage_details": {
                "input": 8_004,
                "input_cached_tokens": 2_003,
                "input_cache_creation": 90,
                "input_cache_creation_1h": 41,
                "output": 3_702,
                "output_reasoning_tokens": 1_301,
                "total": 15_141,
            },
            "total_cost": Decimal("0.1911115"),
            "user_id": "u1",
            "session_id": "s1",
            "input": SAID,
        },
        [
            {
                "runId": "o1",
                "provider": "openai",
                "model": "gpt-5.5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 10_138,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "cacheWriteTokens": 131,
                "reasoningTokens": 1_301,
                "units": {"cacheWrite1h": 41},
                "latencyMs": 1_566,
                "timeToFirstTokenMs": 200,
                "costUSD": 0.1911115,
                "traceId": "t1",
                "sessionId": "s1",
                "userId": "u1",
            }
        ],
    ),
    "langsmith": (
        {
            "id": "r1",
            "run_type": "llm",
            "trace_id": "t1",
            "start_time": START,
            "end_time": END,
            "first_token_time": FIRST,
            "error": f"RateLimitError('{SAID}')",
            "extra": {"metadata": {"ls_provider": "openai", "ls_model_name": "gpt-5.5", "thread_id": "s1"}},
            "prompt_tokens": 10_007,
            "completion_tokens": 5_003,
            "prompt_token_details": {"cache_read": 2_003, "cache_creation": 11, "audio": 7},
            "completion_token_details": {"reasoning": 1_301, "audio": 9},
            "total_cost": "0.1911115",
            "tags": ["x"],
        },
        [
            {
                "runId": "r1",
                "provider": "openai",
                "model": "gpt-5.5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "error",
                "errorCode": "RateLimitError",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "cacheWriteTokens": 11,
                "reasoningTokens": 1_301,
                "audioInputTokens": 7,
                "audioOutputTokens": 9,
                "latencyMs": 1_566,
                "timeToFirstTokenMs": 200,
                "costUSD": 0.1911115,
                "traceId": "t1",
                "sessionId": "s1",
                "tags": ["x"],
            }
        ],
    ),
    "posthog": (
        {
            "uuid": "e1",
            "event": "$ai_generation",
            "distinct_id": "ada",
            "timestamp": "2026-11-25T10:00:01.566000+00:00",
            "properties": json.dumps(
                {
                    "$ai_provider": "anthropic",
                    "$ai_model": "claude-opus-4-5",
                    "$ai_input": [{"role": "user", "content": SAID}],
                    "$ai_input_tokens": 1_019,
                    "$ai_output_tokens": 704,
                    "$ai_cache_read_input_tokens": 20_111,
                    "$ai_cache_creation_input_tokens": 812,
                    "$ai_web_search_count": 3,
                    "$ai_usage": {
                        "cache_creation": {"ephemeral_1h_input_tokens": 504, "ephemeral_5m_input_tokens": 308},
                        "cache_creation_input_tokens": 812,
                        "cache_read_input_tokens": 20_111,
                        "input_tokens": 1_019,
                        "output_tokens": 704,
                        "server_tool_use": {"web_search_requests": 3},
                        "service_tier": "standard",
                    },
                    "$ai_latency": 1.566,
                    "$ai_time_to_first_token": 0.2,
                    "$ai_trace_id": "t1",
                    "$ai_session_id": "s1",
                    "$ai_stop_reason": "end_turn",
                    "$ai_total_cost_usd": "0.0697155",
                }
            ),
        },
        [
            {
                "runId": "e1",
                "provider": "anthropic",
                "model": "claude-opus-4-5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 21_942,
                "outputTokens": 704,
                "cachedInputTokens": 20_111,
                "cacheWriteTokens": 812,
                "units": {"cacheWrite1h": 504, "webSearch": 3},
                "latencyMs": 1_566,
                "timeToFirstTokenMs": 200,
                "costUSD": 0.0697155,
                "traceId": "t1",
                "sessionId": "s1",
                "userId": "ada",
                "finishReason": "end_turn",
            }
        ],
    ),
    "litellm": (
        {
            "request_id": "chatcmpl-1",
            "call_type": "acompletion",
            "spend": "0.1911115",
            "prompt_tokens": "10007",
            "completion_tokens": "5003",
            "startTime": START,
            "endTime": END,
            "request_duration_ms": "1566",
            "completionStartTime": FIRST,
            "model": "gpt-5.5",
            "custom_llm_provider": "openai",
            "metadata": json.dumps(
                {
                    "usage_object": {
                        "prompt_tokens_details": {"cached_tokens": 2_003, "cache_write_tokens": 17},
                        "completion_tokens_details": {"reasoning_tokens": 1_301},
                    }
                }
            ),
            "cache_hit": "False",
            "request_tags": '["beta"]',
            "team_id": "search",
            "end_user": "c1",
            "session_id": "s1",
            "status": "success",
            "messages": SAID,
        },
        [
            {
                "runId": "chatcmpl-1",
                "provider": "openai",
                "model": "gpt-5.5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "cacheWriteTokens": 17,
                "reasoningTokens": 1_301,
                "latencyMs": 1_566,
                "timeToFirstTokenMs": 200,
                "costUSD": 0.1911115,
                "sessionId": "s1",
                "userId": "c1",
                "tags": ["beta"],
                "metadata": {
                    "team": "search",
                    "callType": "acompletion",
                    "usage": {
                        "prompt_tokens_details": {"cached_tokens": 2_003, "cache_write_tokens": 17},
                        "completion_tokens_details": {"reasoning_tokens": 1_301},
                    },
                },
            }
        ],
    ),
    "weave": (
        {
            "id": "call-1",
            "trace_id": "t1",
            "op_name": "weave:///team/app/op/anthropic.Messages.create:v0",
            "started_at": START,
            "ended_at": END,
            "thread_id": "s1",
            "exception": None,
            "attributes": {"weave": {"kind": "llm"}, "integration": {"name": "anthropic"}},
            "inputs": {"model": "claude-opus-4-6", "messages": SAID},
            "output": {"content": SAID, "service_tier": "flex"},
            "summary": {
                "usage": {
                    "claude-opus-4-6": {
                        "requests": 1,
                        "input_tokens": 21_942,
                        "output_tokens": 704,
                        "cache_read_input_tokens": 20_111,
                        "cache_creation_input_tokens": 812,
                        "cache_creation": {"ephemeral_1h_input_tokens": 504},
                        "server_tool_use": {"web_search_requests": 3},
                    }
                }
            },
        },
        [
            {
                "runId": "call-1",
                "provider": "anthropic",
                "model": "claude-opus-4-6",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 21_942,
                "outputTokens": 704,
                "cachedInputTokens": 20_111,
                "cacheWriteTokens": 812,
                "units": {"cacheWrite1h": 504, "webSearch": 3},
                "serviceTier": "flex",
                "latencyMs": 1_566,
                "traceId": "t1",
                "sessionId": "s1",
            }
        ],
    ),
    "mlflow": (
        {
            "trace_id": "tr-1",
            "trace": json.dumps(
                {
                    "data": {
                        "spans": [
                            span("AGENT", "STATUS_CODE_OK"),
                            span(
                                "CHAT_MODEL",
                                "STATUS_CODE_OK",
                                mlflow__llm__model="claude-opus-4-6",
                                mlflow__llm__provider="anthropic",
                                mlflow__chat__tokenUsage={
                                    "input_tokens": 10_007,
                                    "output_tokens": 5_003,
                                    "cache_read_input_tokens": 2_003,
                                    "cache_creation_input_tokens": 812,
                                    "cache_creation_input_tokens_above_1hr": 504,
                                },
                            ),
                            span("LLM", "STATUS_CODE_ERROR", model="gpt-5.5"),
                        ]
                    }
                }
            ),
            "spans": "[]",
            "request": SAID,
        },
        [
            {
                "runId": "dHJhY2U=-CHAT_MODEL",
                "provider": "anthropic",
                "model": "claude-opus-4-6",
                "timestamp": "1795600800000",
                "status": "success",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "cacheWriteTokens": 812,
                "units": {"cacheWrite1h": 504},
                "latencyMs": 1_566,
                "traceId": "tr-1",
            },
            {
                "runId": "dHJhY2U=-LLM",
                "provider": "openai",
                "model": "gpt-5.5",
                "timestamp": "1795600800000",
                "status": "error",
                "errorCode": "429",
                "latencyMs": 1_566,
                "traceId": "tr-1",
            },
        ],
    ),
    "helicone": (
        {
            "request_id": "h1",
            "request_created_at": START,
            "response_status": "429",
            "latency": "1566",
            "model": "gpt-5.5",
            "provider": "OPENAI",
            "prompt_tokens": "10007",
            "completion_tokens": "5003",
            "user_id": "u1",
        },
        [
            {
                "runId": "h1",
                "provider": "openai",
                "model": "gpt-5.5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "error",
                "errorCode": "429",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "latencyMs": 1_566,
                "userId": "u1",
            }
        ],
    ),
    "cursor": (
        {
            "Date": "2026-11-25T10:00:00.000Z",
            "User": "u1",
            "Kind": "Included",
            "Model": "claude-4.6-opus",
            "Max Mode": "Yes",
            "Input (w/ Cache Write)": "160882",
            "Input (w/o Cache Write)": "7025",
            "Cache Read": "2117021",
            "Output Tokens": "13340",
            "Total Tokens": "2298268",
            "Cost": "$14.79",
        },
        [
            {
                "runId": "row-9c7754a2e67220d2a8d9d2fd",
                "provider": "cursor",
                "model": "claude-4.6-opus",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 2_284_928,
                "outputTokens": 13_340,
                "cachedInputTokens": 2_117_021,
                "cacheWriteTokens": 160_882,
                "costUSD": 14.79,
                "userId": "u1",
                "metadata": {"kind": "Included"},
            }
        ],
    ),
    "openrouter-calls": (
        {
            "generation_id": "gen-1",
            "created_at": START,
            "model_permaslug": "openai/gpt-5.5",
            "tokens_prompt": "10007",
            "tokens_completion": "5003",
            "tokens_reasoning": "1301",
            "cost_total": "0.1911115",
            "generation_time_ms": "1566",
            "provider_name": "OpenAI",
            "finish_reason_normalized": "stop",
        },
        [
            {
                "runId": "gen-1",
                "provider": "openrouter",
                "model": "openai/gpt-5.5",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "finishReason": "stop",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "reasoningTokens": 1_301,
                "latencyMs": 1_566,
                "costUSD": 0.1911115,
                "metadata": {"upstream": "OpenAI"},
            }
        ],
    ),
    "braintrust": (
        {
            "span_id": "s1",
            "root_span_id": "t1",
            "created": START,
            "span_attributes": {"type": "llm", "name": "anthropic.messages.create"},
            "metadata": {"provider": "anthropic", "model": "claude-opus-4-6", "usage_service_tier": "priority"},
            "metrics": {
                "start": Decimal("1795600800.0"),
                "end": Decimal("1795600801.566"),
                "time_to_first_token": Decimal("0.2"),
                "prompt_tokens": 21_942,
                "completion_tokens": 704,
                "prompt_cached_tokens": 20_111,
                "prompt_cache_creation_5m_tokens": 308,
                "prompt_cache_creation_1h_tokens": 504,
                "server_tool_use_web_search_requests": 3,
            },
            "input": SAID,
        },
        [
            {
                "runId": "s1",
                "provider": "anthropic",
                "model": "claude-opus-4-6",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 21_942,
                "outputTokens": 704,
                "cachedInputTokens": 20_111,
                "cacheWriteTokens": 812,
                "units": {"cacheWrite1h": 504, "webSearch": 3},
                "serviceTier": "priority",
                "latencyMs": 1_566,
                "timeToFirstTokenMs": 200,
                "traceId": "t1",
            }
        ],
    ),
    "opik": (
        {
            "id": "s1",
            "trace_id": "t1",
            "type": "llm",
            "start_time": START,
            "end_time": END,
            "provider": "127.0.0.1",
            "model": "gpt-5.4",
            "usage": {"prompt_tokens": 2_903, "completion_tokens": 411, "total_tokens": 3_314},
            "metadata": {
                "service_tier": "flex",
                "usage": {
                    "prompt_tokens": 2_903,
                    "completion_tokens": 411,
                    "prompt_tokens_details": {"cached_tokens": 2_003},
                    "completion_tokens_details": {"reasoning_tokens": 307},
                },
            },
            "total_estimated_cost": None,
            "error_info": None,
            "input": {"messages": SAID},
        },
        [
            {
                "runId": "s1",
                "provider": "openai",
                "model": "gpt-5.4",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 2_903,
                "outputTokens": 411,
                "cachedInputTokens": 2_003,
                "reasoningTokens": 307,
                "serviceTier": "flex",
                "latencyMs": 1_566,
                "traceId": "t1",
            }
        ],
    ),
    "phoenix": (
        {
            "context.span_id": "s1",
            "context.trace_id": "t1",
            "span_kind": "LLM",
            "parent_id": "",
            "start_time": "2026-11-25 10:00:00+00:00",
            "end_time": "2026-11-25 10:00:01.566000+00:00",
            "status_code": "OK",
            "status_message": "",
            "attributes.llm.system": "openai",
            "attributes.llm.model_name": "gpt-5.4",
            "attributes.llm.token_count.prompt": "2903.0",
            "attributes.llm.token_count.completion": "411.0",
            "attributes.llm.token_count.total": "3314.0",
            "attributes.llm.token_count.prompt_details.cache_read": "2003.0",
            "attributes.llm.token_count.completion_details.reasoning": "307.0",
            "attributes.input.value": SAID,
        },
        [
            {
                "runId": "s1",
                "provider": "openai",
                "model": "gpt-5.4",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 2_903,
                "outputTokens": 411,
                "cachedInputTokens": 2_003,
                "reasoningTokens": 307,
                "latencyMs": 1_566,
                "traceId": "t1",
            }
        ],
    ),
    "openai-batch": (
        {
            "id": "batch_req_1",
            "custom_id": SAID,
            "response": {
                "status_code": 200,
                "request_id": "req_1",
                "body": {
                    "id": "chatcmpl-1",
                    "created": NANOS // 1_000_000_000,
                    "model": "mistral-large-2512",
                    "choices": [{"message": {"content": SAID}}],
                    "usage": {
                        "prompt_tokens": 10_007,
                        "completion_tokens": 5_003,
                        "prompt_tokens_details": {"cached_tokens": 2_003},
                        "completion_tokens_details": {"reasoning_tokens": 1_301},
                    },
                },
            },
            "error": None,
        },
        [
            {
                "runId": "batch_req_1",
                "provider": "mistral",
                "model": "mistral-large-2512",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "reasoningTokens": 1_301,
                "serviceTier": "batch",
            }
        ],
    ),
    "anthropic-batch": ({"custom_id": SAID, "result": {"type": "canceled"}}, []),
    "gemini-batch": (
        {
            "key": SAID,
            "response": {
                "candidates": [{"content": {"parts": [{"text": SAID}]}}],
                "createTime": START,
                "modelVersion": "gemini-2.5-pro",
                "responseId": "g1",
                "usageMetadata": {
                    "promptTokenCount": 10_007,
                    "candidatesTokenCount": 3_702,
                    "thoughtsTokenCount": 1_301,
                    "cachedContentTokenCount": 2_003,
                    "totalTokenCount": 15_010,
                },
            },
        },
        [
            {
                "runId": "g1",
                "provider": "google",
                "model": "gemini-2.5-pro",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "cachedInputTokens": 2_003,
                "reasoningTokens": 1_301,
                "serviceTier": "batch",
            }
        ],
    ),
    "vertex-batch": (
        {
            "status": "",
            "processed_time": START,
            "request": {"contents": [{"parts": [{"text": SAID}]}]},
            "response": {
                "candidates": [{"content": {"parts": [{"text": SAID}]}}],
                "createTime": START,
                "modelVersion": "gemini-2.5-pro",
                "responseId": "v1",
                "usageMetadata": {"promptTokenCount": 10_007, "candidatesTokenCount": 5_003, "totalTokenCount": 15_010},
            },
        },
        [
            {
                "runId": "v1",
                "provider": "google",
                "model": "gemini-2.5-pro",
                "timestamp": "2026-11-25T10:00:00Z",
                "status": "success",
                "inputTokens": 10_007,
                "outputTokens": 5_003,
                "serviceTier": "batch",
            }
        ],
    ),
    "bedrock-batch": ({"recordId": "CALL0000001", "modelInput": {"prompt": SAID}, "error": {"errorCode": 400}}, []),
}

# Input, output, cached, written, reasoning, and dollars.
SUMS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "openai-usage": (
        {
            "object": "organization.usage.completions.result",
            "input_tokens": 100_070,
            "input_cached_tokens": 20_030,
            "input_cache_write_tokens": 10_090,
            "output_tokens": 50_030,
            "num_model_requests": 10,
            "model": "gpt-5.6-sol",
            "batch": True,
        },
        (100_070, 50_030, 20_030, 10_090, 0, None),
    ),
    "openai-costs": (
        {
            "object": "organization.costs.result",
            "amount": {"value": Decimal("1.347"), "currency": "usd"},
            "line_item": "gpt-5.6-sol, input",
        },
        (0, 0, 0, 0, 0, Decimal("1.347")),
    ),
    "anthropic-usage": (
        {
            "starting_at": START,
            "uncached_input_tokens": 10_007,
            "cache_read_input_tokens": 4_001,
            "cache_creation": {"ephemeral_5m_input_tokens": 998, "ephemeral_1h_input_tokens": 2_003},
            "output_tokens": 5_003,
            "model": "claude-opus-4-8",
        },
        (17_009, 5_003, 4_001, 3_001, 0, None),
    ),
    "anthropic-costs": (
        {"starting_at": START, "amount": "12345.67", "currency": "USD", "cost_type": "tokens"},
        (0, 0, 0, 0, 0, Decimal("123.4567")),
    ),
    "anthropic-analytics": (
        {
            "starting_at": START,
            "group": {"model": "claude-opus-4-8", "speed": "fast"},
            "usage": {
                "uncached_input_tokens": 10_007,
                "cache_read_input_tokens": 4_001,
                "cache_creation": {"ephemeral_5m_input_tokens": 998, "ephemeral_1h_input_tokens": 2_003},
                "output_tokens": 5_003,
                "requests": 3,
            },
        },
        (17_009, 5_003, 4_001, 3_001, 0, None),
    ),
    "anthropic-console-usage": (
        {
            "usage_date_utc": "2026-11-25",
            "model_version": "claude-opus-4-8",
            "api_key": "Service",
            "workspace": "Default",
            "usage_type": "standard",
            "context_window": "≤ 200k",
            "usage_input_tokens_no_cache": "10007",
            "usage_input_tokens_cache_write_5m": "998",
            "usage_input_tokens_cache_write_1h": "2003",
            "usage_input_tokens_cache_read": "4001",
            "usage_output_tokens": "5003",
            "web_search_count": "3",
            "inference_geo": "global",
            "speed": "",
        },
        (17_009, 5_003, 4_001, 3_001, 0, None),
    ),
    "anthropic-console-costs": (
        {
            "usage_date_utc": "2026-11-25",
            "model": "Claude Haiku 4.5",
            "workspace": "Default",
            "api_key": "Service",
            "usage_type": "message",
            "context_window": "≤ 200k",
            "token_type": "input_cache_read",
            "cost_usd": "18.71",
            "list_price_usd": "18.71",
            "cost_type": "token",
            "inference_geo": "not_available",
            "speed": "",
        },
        (0, 0, 0, 0, 0, Decimal("18.71")),
    ),
    "openrouter-activity": (
        {
            "date": "2026-11-25",
            "model": "openai/gpt-5.5",
            "usage": Decimal("0.05"),
            "byok_usage_inference": Decimal("0.95"),
            "requests": 3,
            "prompt_tokens": 700,
            "completion_tokens": 90,
            "reasoning_tokens": 20,
        },
        (700, 90, 0, 0, 20, Decimal(1)),
    ),
}


def test_each_format_has_a_case() -> None:
    assert {*CALLS, *SUMS} == FORMATS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_an_export_is_a_run_with_all_its_counts_and_nothing_that_was_said(name: str) -> None:
    row, expected = CALLS[name]
    found = recognised(row)

    assert found is not None
    assert found.name == name
    assert runs_of(row) == expected
    assert SAID not in json.dumps(runs_of(row))
    assert not list(found.unused(row))


OPENAI_DAY = {"start_time": "1795737600", "end_time": "1795824000", "project_id": "", "api_key_id": ""}
REPORTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a batch in the console's CSV": (
        {"num_model_requests": "10.0", "model": "gpt-5.4", "batch": "TRUE", "service_tier": "default", "input_tokens": "59200.0", "output_tokens": "7.0"},
        {"requests": 10, "model": "gpt-5.4", "serviceTier": "batch", "inputTokens": 59_200, "outputTokens": 7},
    ),
    "images within a conversation": (
        {"num_model_requests": 1, "model": "gpt-realtime", "input_tokens": 9, "input_cached_audio_tokens": 2, "input_image_tokens": 3, "input_cached_image_tokens": 1, "output_image_tokens": 4},
        {"requests": 1, "model": "gpt-realtime", "inputTokens": 9, "units": {"cachedAudioInput": 2, "imageInput": 3, "cachedImageInput": 1, "imageOutput": 4}},
    ),
    "embeddings": ({"num_model_requests": 3, "model": "e", "input_tokens": 123}, {"requests": 3, "model": "e", "inputTokens": 123}),
    "images": ({"num_model_requests": 2, "model": "i", "images": 4}, {"requests": 2, "model": "i", "units": {"images": 4}}),
    "speech": ({"num_model_requests": 2, "model": "t", "characters": 5003}, {"requests": 2, "model": "t", "units": {"characters": 5003}}),
    "transcriptions": ({"num_model_requests": 2, "model": "w", "seconds": 613}, {"requests": 2, "model": "w", "units": {"audioSeconds": 613}}),
    "searches, whose requests are those of a model": (
        {"num_model_requests": 4, "num_requests": 6, "model": "gpt-5.4"}, {"model": "gpt-5.4", "units": {"webSearch": 6}},
    ),
    "a tier's line of costs": (
        {"line_item": "priority | gpt-5.4-2026-03-05, input", "amount": {"value": 2, "currency": "usd"}},
        {"model": "gpt-5.4-2026-03-05", "serviceTier": "priority", "costUSD": 2, "currency": "USD", "metadata": {"line": "priority | gpt-5.4-2026-03-05, input"}},
    ),
    "a line of costs that is a model, in the console's CSV": (
        {"line_item": "tts-1", "amount_value": "0.8958740000000000", "amount_currency": "usd"},
        {"model": "tts-1", "costUSD": Decimal("0.895874"), "currency": "USD", "metadata": {"line": "tts-1"}},
    ),
    "a line of costs of no model": (
        {"line_item": "assistants api | file search", "amount": {"value": 1, "currency": "usd"}},
        {"costUSD": 1, "currency": "USD", "metadata": {"line": "assistants api | file search"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_each_of_openais_reports_has_the_counts_of_its_kind(name: str) -> None:
    row, expected = REPORTED[name]
    row = OPENAI_DAY | row
    found = recognised(row)

    assert found is not None
    assert not list(found.unused(row))
    (one,) = found.read(by_name(row))
    assert one.pop("provider") == "openai"
    assert len([*filter(None, one.pop("period"))]) == 2
    assert one == expected


@pytest.mark.parametrize("empty", [{"num_model_requests": "", "model": ""}, {"amount_value": "", "line_item": ""}])
def test_a_day_without_calls_in_openais_csv_is_nothing(empty: dict[str, str]) -> None:
    found = recognised(OPENAI_DAY | empty)

    assert found is not None
    assert not list(found.read(by_name(OPENAI_DAY | empty)))


@pytest.mark.parametrize("name", SUMS)
def test_a_report_of_days_has_totals_and_no_run(name: str) -> None:
    row, expected = SUMS[name]
    maker = a_maker(row, takes_sums=True)

    assert maker.format is FORMATS[name]
    assert not list(maker.runs_of(row))
    assert maker.sums == 1
    assert tuple(maker.figures.sums.values()) == expected
    assert not list(maker.format.unused(row))
    with pytest.raises(InvalidMapping, match=f"This is {maker.format.title}: sums of days, not calls"):
        a_maker(row)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("langfuse", {"type": "SPAN"}),
        ("posthog", {"event": "$pageview"}),
        ("braintrust", {"span_attributes": {"type": "task"}}),
        ("opik", {"type": "general"}),
        ("phoenix", {"span_kind": "CHAIN"}),
        ("weave", {"attributes": {"weave": {}}}),
        ("langsmith", {"run_type": "chain"}),
        ("mlflow", {"trace": '{"data": 1}'}),
    ],
)
def test_what_is_no_call_is_no_run(name: str, changes: dict[str, Any]) -> None:
    assert runs_of({**CALLS[name][0], **changes}) == []


IN_BATCH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "OCR of Mistral": (
        {
            "custom_id": SAID,
            "response": {
                "status_code": 200,
                "body": {"model": "mistral-ocr-2512", "usage_info": {"pages_processed": 9}},
            },
        },
        {"provider": "mistral", "units": {"pages": 9}},
    ),
    "Claude at Vertex": (
        {
            "custom_id": SAID,
            "response": {"model": "claude-opus-4-8", "usage": {"input_tokens": 907, "output_tokens": 411}},
        },
        {"provider": "anthropic", "inputTokens": 907, "outputTokens": 411},
    ),
    "Claude at Bedrock": (
        {
            "recordId": "1",
            "modelInput": {},
            "modelOutput": {
                "id": "msg_bdrk_1",
                "model": "claude-opus-4-8",
                "usage": {"input_tokens": 907, "cache_read_input_tokens": 2_003, "output_tokens": 411},
            },
        },
        {
            "provider": "aws",
            "runId": "msg_bdrk_1",
            "inputTokens": 2_910,
            "cachedInputTokens": 2_003,
            "outputTokens": 411,
        },
    ),
}


@pytest.mark.parametrize("name", IN_BATCH)
def test_a_call_in_a_batch_has_its_counts_wherever_the_answer_stands(name: str) -> None:
    row, expected = IN_BATCH[name]

    (run,) = runs_of(row, fallbacks={"timestamp": START})
    assert run.items() >= {**expected, "serviceTier": "batch"}.items()


def test_a_call_of_gemini_that_mlflow_keeps_as_two_spans_is_one_run_with_its_thoughts() -> None:
    usage = {"input_tokens": 2_903, "output_tokens": 97, "total_tokens": 4_042, "cache_read_input_tokens": 2_003}
    named = {"mlflow__llm__model": "gemini-2.5-pro", "mlflow__llm__provider": "gemini"}
    outer, inner = (span("LLM", "STATUS_CODE_OK", mlflow__chat__tokenUsage=usage, **named) for _ in range(2))
    spans = [{**outer, "span_id": "outer"}, {**inner, "span_id": "inner", "parent_span_id": "outer"}]

    (run,) = runs_of({"trace_id": "tr-1", "trace": json.dumps({"data": {"spans": spans}}), "spans": "[]"})

    assert run["runId"] == "dHJhY2U=-inner"
    assert (run["inputTokens"], run["cachedInputTokens"], run["outputTokens"]) == (2_903, 2_003, 1_139)


def test_a_failed_call_of_phoenix_has_the_model_that_was_asked() -> None:
    row = {
        "span_kind": "LLM",
        "status_code": "ERROR",
        "status_message": f"APIConnectionError: {SAID}",
        "start_time": START,
        "parent_id": None,
        "context": {"span_id": "s1", "trace_id": "t1"},
        "attributes": {
            "llm.system": "openai",
            "llm.invocation_parameters": '{"model": "gpt-5.4"}',
            "input.value": SAID,
        },
    }

    assert runs_of(row) == [
        {
            "runId": "s1",
            "provider": "openai",
            "model": "gpt-5.4",
            "timestamp": "2026-11-25T10:00:00Z",
            "status": "error",
            "errorCode": "APIConnectionError",
            "traceId": "t1",
        }
    ]


def test_an_answer_of_anthropics_batch_is_a_run_at_its_price_once_it_is_given_a_time() -> None:
    usage = {
        "input_tokens": 1_007,
        "cache_read_input_tokens": 2_003,
        "cache_creation_input_tokens": 499,
        "cache_creation": {"ephemeral_5m_input_tokens": 90, "ephemeral_1h_input_tokens": 409},
        "output_tokens": 5_003,
    }
    message = {"id": "msg_1", "model": "claude-opus-4-8", "usage": usage, "content": [{"text": SAID}]}
    row = {"custom_id": "a", "result": {"type": "succeeded", "message": message}}
    with pytest.raises(RowRejected, match=r"timestamp is missing; .* --default timestamp=now"):
        runs_of(row)

    (run,) = a_maker(row, fallbacks={"timestamp": START}).runs_of(row)

    assert json.loads(as_text(run)) == {
        "runId": "msg_1",
        "provider": "anthropic",
        "model": "claude-opus-4-8",
        "timestamp": "2026-11-25T10:00:00Z",
        "status": "success",
        "inputTokens": 3_509,
        "outputTokens": 5_003,
        "cachedInputTokens": 2_003,
        "cacheWriteTokens": 499,
        "units": {"cacheWrite1h": 409},
        "serviceTier": "batch",
    }


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (
            {"custom_id": "a", "response": {"status_code": 400, "body": {"error": {"message": SAID}}}, "error": None},
            "400",
        ),
        ({"custom_id": "a", "response": None, "error": {"code": "batch_expired", "message": SAID}}, "batch_expired"),
        (
            {"custom_id": "a", "result": {"type": "errored", "error": {"error": {"type": "invalid_request_error"}}}},
            "invalid_request_error",
        ),
        ({"key": "a", "response": None, "error": {"code": 429, "message": SAID}}, "429"),
    ],
)
def test_a_request_of_a_batch_that_failed_is_a_failure_of_the_model_that_is_named(
    row: dict[str, Any], code: str
) -> None:
    named = {"model": "unknown", "provider": "unknown", "timestamp": START}

    (run,) = a_maker(row, fallbacks=named).runs_of(row)

    assert (run.status, run.error_code) == ("error", code)
    assert SAID not in as_text(run)


def test_a_failed_call_of_litellm_has_no_tokens_and_no_cost() -> None:
    error = {"error_information": {"error_code": "429", "error_class": "RateLimitError"}}
    row = {
        **CALLS["litellm"][0],
        "status": "failure",
        "spend": "0",
        "prompt_tokens": "0",
        "metadata": json.dumps(error),
    }

    (run,) = runs_of(row)

    assert (run["status"], run["errorCode"]) == ("error", "429")
    assert not {"inputTokens", "outputTokens", "costUSD"} & run.keys()


def test_the_tier_of_openai_stands_before_langchains_details() -> None:
    row = {
        **CALLS["langsmith"][0],
        "prompt_token_details": {"flex_cache_read": 2_003, "flex_cache_creation": 11, "flex": 7_993},
        "completion_token_details": {"flex_reasoning": 1_301, "flex": 3_702},
    }

    (run,) = runs_of(row)

    counts = [run[name] for name in ("inputTokens", "cachedInputTokens", "cacheWriteTokens", "reasoningTokens")]
    assert counts == [10_007, 2_003, 11, 1_301]
    assert run["serviceTier"] == "flex"


def test_what_langsmith_counts_beside_the_output_of_gemini_is_added() -> None:
    row = {**CALLS["langsmith"][0], "completion_tokens": 97, "completion_token_details": {"reasoning": 1_042}}

    (run,) = runs_of(row)

    assert (run["outputTokens"], run["reasoningTokens"]) == (1_139, 1_042)


def test_an_event_of_posthog_without_the_vendors_counts_is_read_by_its_own() -> None:
    about = {
        "$ai_provider": "openai",
        "$ai_model": "gpt-5.4",
        "$ai_service_tier": "flex",
        "$ai_input_tokens": 3_001,
        "$ai_output_tokens": 507,
        "$ai_cache_read_input_tokens": 1_408,
        "$ai_reasoning_tokens": 331,
        "$ai_is_error": True,
        "$ai_http_status": 529,
        "$process_person_profile": False,
    }

    (run,) = runs_of({**CALLS["posthog"][0], "properties": about})

    assert (run["inputTokens"], run["cachedInputTokens"], run["reasoningTokens"]) == (3_001, 1_408, 331)
    assert (run["status"], run["errorCode"], run["serviceTier"]) == ("error", "529", "flex")
    assert "userId" not in run


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (1.5, "inputTokens must be a whole number"),
        ("1e99999", "has a number that is too large"),
        ("Infinity", "has a number that is too large"),
        ("3,001", "has a number that cannot be read"),
    ],
)
def test_a_count_that_is_none_is_refused_and_never_rounded(given: object, message: str) -> None:
    row = CALLS["helicone"][0] | {"prompt_tokens": given}
    with pytest.raises(RowRejected, match=message):
        runs_of(row)


@pytest.mark.parametrize("nothing", [float("nan"), "NaN", "", None], ids=repr)
def test_a_count_that_is_not_there_may_be_written_as_pandas_does(nothing: object) -> None:
    (run,) = runs_of(CALLS["helicone"][0] | {"prompt_tokens": nothing})
    assert run.get("inputTokens") is None


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("odd", [[["input", 5]], [5], {"a": {}}, "text", 5, True, None], ids=repr)
def test_a_row_of_other_types_is_refused_or_read(name: str, odd: object) -> None:
    row = CALLS[name][0]
    outcomes: list[object] = []
    for column in row:
        maker = a_maker({**row, column: odd}, format=name)
        try:
            outcomes.append(len(list(maker.runs_of({**row, column: odd}))))
        except RowRejected as refused:
            outcomes.append(str(refused))
    assert len(outcomes) == len(row)


def test_a_decision_in_braintrust_is_a_call_with_a_price_of_its_own() -> None:
    row, (expected,) = CALLS["braintrust"]

    (run,) = runs_of({**row, "span_attributes": {"type": "decision"}})

    assert run == {**expected, "provider": f"{expected['provider']}-decisions"}


def test_a_map_of_parquet_is_an_object() -> None:
    row, expected = CALLS["langfuse"]

    assert runs_of({**row, "usage_details": [list(pair) for pair in row["usage_details"].items()]}) == expected


def test_an_answer_from_litellms_cache_costs_nothing() -> None:
    (run,) = runs_of({**CALLS["litellm"][0], "cache_hit": "True", "spend": "0"})

    assert run["costUSD"] == 0
    assert run["metadata"]["cacheHit"] is True


def test_columns_that_a_format_does_not_read_are_named() -> None:
    row = {**CALLS["langsmith"][0], "video_tokens": 5, "embedding_cost": "", "name": "chat"}
    maker = a_maker(row)
    list(maker.runs_of(row))

    assert list(maker.unused) == ["video_tokens"]


def test_a_mapping_or_the_name_of_no_format_turns_formats_off() -> None:
    row = CALLS["helicone"][0]

    assert a_maker(row, links=parse_links(["latency=latencyMs"], CONTENT)).format is None
    assert a_maker(row, format=COLUMNS).format is None


def test_a_format_that_the_file_is_not_is_refused() -> None:
    with pytest.raises(InvalidMapping, match="This is not LangSmith's runs, which has other columns"):
        a_maker(CALLS["helicone"][0], format="langsmith")


def test_the_totals_of_a_file_hold_rows_that_cannot_be_runs() -> None:
    row = {"model": "gpt-5.5", "prompt_tokens": 5, "cost": Decimal("0.5")}
    maker = a_maker(row)

    with pytest.raises(RowRejected, match="timestamp is missing"):
        list(maker.runs_of(row))
    assert str(maker.figures) == "5 inputTokens, $0.5"


@pytest.mark.parametrize("written", ["usage_details", "usageDetails", "Usage Details"])
def test_columns_are_known_in_any_spelling(written: str) -> None:
    assert by_name({written: 1}) == {"usagedetails": 1}


def test_a_document_of_pages_is_read_as_the_rows_in_its_buckets(tmp_path: Path) -> None:
    results = [{"model": "a"}, {"model": "b", "start_time": 3}]
    bucket = {"object": "bucket", "start_time": 1, "end_time": 2, "results": results}
    path = tmp_path / "usage.json"
    path.write_bytes(msgspec.json.encode({"object": "page", "data": [bucket], "has_more": False}))

    with RowFile(path) as file:
        rows = [row.values for row in file if isinstance(row, Row)]

    assert rows == [{"start_time": 1, "end_time": 2, "model": "a"}, {"start_time": 3, "end_time": 2, "model": "b"}]


def test_rows_that_the_proxy_of_litellm_writes_are_read_as_it_means_them() -> None:
    row = {
        **CALLS["litellm"][0],
        "request_id": "resp_" + "x" * 400,
        "litellm_call_id": "call-1",
        "model": "openai/gpt-5.4",
        "endTime": END,
        "completionStartTime": END.replace("T", " ").replace("Z", "+00:00"),
        "metadata": json.dumps({"cost_breakdown": {"service_tier": "flex"}}),
    }

    (run,) = runs_of(row)

    assert (run["runId"], run["model"], run["serviceTier"]) == ("call-1", "gpt-5.4", "flex")
    assert "timeToFirstTokenMs" not in run


def test_what_the_proxy_of_litellm_refused_by_itself_is_a_failed_run() -> None:
    row = {**CALLS["litellm"][0], "status": "failure", "model": "unknown-model", "custom_llm_provider": ""}

    (run,) = runs_of(row)

    assert (run["provider"], run["model"], run["status"]) == ("litellm", "unknown-model", "error")


def test_a_failed_call_of_weave_is_a_failed_run_of_the_model_that_was_asked() -> None:
    error = json.dumps({"type": "RateLimitError", "message": f"Error code: 429 - {SAID}"})

    (run,) = runs_of({**CALLS["weave"][0], "exception": error, "summary": {}, "output": None})

    assert (run["status"], run["errorCode"], run["model"]) == ("error", "429", "claude-opus-4-6")
    assert not {"inputTokens", "cachedInputTokens"} & run.keys()


def test_chats_of_openai_that_weave_recorded_hold_what_was_cached_once() -> None:
    usage = {"prompt_tokens": 2_903, "completion_tokens": 411, "prompt_tokens_details": {"cached_tokens": 2_003}}
    summary = {"usage": {"gpt-5.4": {**usage, "cache_read_input_tokens": 2_003}}}

    (run,) = runs_of({**CALLS["weave"][0], "summary": summary})

    assert (run["inputTokens"], run["outputTokens"], run["cachedInputTokens"]) == (2_903, 411, 2_003)

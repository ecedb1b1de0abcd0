"""What each attribute says of a run, the newest convention and the oldest."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from runtally.otlp.attributes import FIELDS, FREE_PREFIXES, MAX_FREE_KEYS, PARTS, read_facts, read_free, read_resource
from runtally.otlp.values import Attributes, Value

USAGE = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 1, "cache_write_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 3},
    "cache_creation": {"ephemeral_1h_input_tokens": 5}, "service_tier": "flex", "inference_geo": "us",
}  # fmt: skip
IN_PARTS: dict[str, dict[str, Any]] = {
    "llm.invocation_parameters": {"model": "m", "tools": [{"description": "never decoded"}]},
    "metadata": {"ls_model_name": "m", "thread_id": "never decoded"},
    "langfuse.observation.usage_details": USAGE,
    "gen_ai.usage.raw": USAGE,
    "langfuse.observation.cost_details": {"total": 0.5, "input": 0.4},
    "ai.response.providerMetadata": {
        "anthropic": {
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 6,
                "cache_read_input_tokens": 4,
                "cache_creation": {"ephemeral_1h_input_tokens": 5},
                "service_tier": "flex",
            },
            "reasoningTokens": 2,
            "cacheReadInputTokens": 4,
        },
        "openrouter": {"usage": {"cost": 0.5}},
    },
    "hidden_params": {"response_cost": 0.5, "api_base": "never decoded"},
    "langsmith.metadata.usage_metadata": {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_token_details": {
            "cache_read": 4,
            "cache_creation": 0,
            "ephemeral_5m_input_tokens": 1,
            "ephemeral_1h_input_tokens": 5,
            "audio": 1,
            "flex": 6,
        },
        "output_token_details": {"reasoning": 2, "audio": 3},
        "inference_geo": "us",
    },
    "mlflow.chat.tokenUsage": {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 6,
        "cache_creation_input_tokens_above_1hr": 5,
    },
    "mirascope.response.usage": {
        "input_tokens": 10,
        "cache_read_tokens": 4,
        "cache_write_tokens": 6,
        "reasoning_tokens": 2,
        "raw": None,
    },
    "lk.llm_metrics": {"total_tokens": 15, "label": "never decoded"},
    "lk.tts_metrics": {"input_tokens": 10, "output_tokens": 5, "characters_count": 7},
}
QUOTED = {"model": "m", "mlflow.llm.model": "m", "mlflow.llm.provider": "p"}
LITERAL = "{'cache_read': 4, 'cache_creation': 6, 'ephemeral_1h_input_tokens': 5, 'reasoning': 2}"
EXPECTED = {
    "input": 10, "output": 5, "total": 15, "cached": 4, "written": 6, "reasoning": 2, "audio_input": 1, "audio_output": 3,
    "cost": Decimal("0.5"), "model": "m", "vendor_input": 10, "counted_apart": True, "units": {"cacheWrite1h": 5}, "provider": "p",
    "tier": "flex", "region": "us",
}  # fmt: skip
SENT: dict[str, Value] = {
    "input": 10, "output": 5, "total": 15, "cached": 4, "written": 6, "reasoning": 2, "audio_input": 1, "audio_output": 3,
    "audio_cached": 1, "cost": 0.5, "http_status": 429, "tags": ["a", "b"], "finish_reasons": ["stop"], "streamed": True, "cache_hit": True,
    "first_token_s": 0.25, "first_token_ms": 250.4, "took": 0.25, "units": 5,
}  # fmt: skip
OF_LANGFUSE = "langfuse.observation.usage_details"
OF_ONE: dict[tuple[str, str], tuple[Value, Any]] = {
    ("counted_apart", OF_LANGFUSE): ('{"input": 1, "cache_read_input_tokens": 2}', True),
    ("total", OF_LANGFUSE): ('{"input": 10, "output": 5, "total": 15}', 15),
    ("units", "lk.tts_metrics"): ('{"input_tokens":0,"characters_count":7}', {"characters": 7}),
    ("units", "metrics.character_count"): ("7", {"characters": 7}),
    ("units", "metrics.audio_seconds"): (2.5, {"audioSeconds": 2.5}),
}
READ: dict[str, Any] = {
    **SENT,
    "cost": Decimal("0.5"),
    "first_token_s": 250,
    "took": 250,
    "first_token_ms": 250,
    "units": {"cacheWrite1h": 5},
}
CASES = [(field, name) for field, (_, _, names) in FIELDS.items() for name in names]


def value_for(field: str, name: str) -> tuple[Value, Any]:
    if (field, name) in OF_ONE:
        return OF_ONE[field, name]
    if name in IN_PARTS:
        return msgspec.json.encode(IN_PARTS[name]).decode(), EXPECTED[field]
    if name in QUOTED:
        return f'"{QUOTED[name]}"', EXPECTED[field]
    if name == "metadata.usage_object":
        return str({**USAGE, "note": None}), EXPECTED[field]
    if name in PARTS:
        return ("openai", "openai-decisions") if name == "decision.system" else (LITERAL, EXPECTED[field])
    return SENT.get(field, f"a {field}"), READ.get(field, f"a {field}")


@pytest.mark.parametrize(("field", "name"), CASES)
def test_a_name_fills_its_field(field: str, name: str) -> None:
    sent, expected = value_for(field, name)

    assert read_facts({name: sent}, {})[field] == expected


@pytest.mark.parametrize("field", FIELDS)
def test_the_first_attribute_with_a_value_wins(field: str) -> None:
    parser, _, names = FIELDS[field]
    plain = [name for name in names if name not in PARTS]
    values: dict[str, Value] = {name: _varied(value_for(field, name)[0], place) for place, name in enumerate(plain)}

    for start in range(len(plain)):
        later = {name: values[name] for name in reversed(plain[start:])}
        assert read_facts({**later}, {})[field] == parser(values[plain[start]])


def _varied(value: Value, place: int) -> Value:
    if isinstance(value, bool):
        return place % 2 == 0
    if isinstance(value, list):
        return [f"{place}"]
    return value + place if isinstance(value, int | float) else f"{value} {place}"


def test_an_empty_name_is_absent() -> None:
    sent: Attributes = {
        "gen_ai.provider.name": " ",
        "gen_ai.system": "",
        "llm.provider": "Unknown",
        "llm.system": "openai",
    }

    assert read_facts(sent, {})["provider"] == "openai"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (7, 7), (7.0, 7), ("7", 7), (" 7 ", 7), (0, 0), (2**53 - 1, 2**53 - 1),
        (-1, None), (7.5, None), ("seven", None), ("7.0", None), (True, None), (2**53, None), ("9" * 400, None), (["7"], None),
        (float("inf"), None), ("\u0667", None),
    ],
)  # fmt: skip
def test_counts_are_whole_numbers_or_digits(sent: Value, expected: int | None) -> None:
    assert read_facts({"gen_ai.usage.input_tokens": sent}, {}).get("input") == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (0.25, "0.25"), ("0.25", "0.25"), (1, "1"), (1e-7, "1E-7"), (0, None), (-1, None), ("x", None), ("NaN", None),
        (float("nan"), None), (float("inf"), None), (True, None), (1e13, None), ("1" * 100, None),
    ],
)  # fmt: skip
def test_costs_are_above_nothing(sent: Value, expected: str | None) -> None:
    found = read_facts({"operation.cost": sent}, {}).get("cost")

    assert found == (None if expected is None else Decimal(expected))


def test_a_cost_of_nothing_leaves_the_word_to_the_next() -> None:
    assert read_facts({"gen_ai.cost.total_cost": 0.0, "operation.cost": 0.5}, {})["cost"] == Decimal("0.5")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 1, "input_tokens": 2, "input": 3, "completion_tokens": 4, "output": 6}, {"input": 1, "output": 4}),
        ({"input_tokens": 2, "input": 3, "output_tokens": 5}, {"input": 2, "output": 5}),
        ({"input": 3, "cache_read_input_tokens": 7}, {"input": 3, "cached": 7}),
        ({"input": 3, "input_cached_tokens": 8, "output": 1, "output_reasoning_tokens": 2}, {"input": 11, "cached": 8, "output": 3}),
        ({"input": 3, "input_cached_tokens": 8, "output": 1, "total": 4}, {"input": 3, "cached": 8, "output": 1}),
        ({"input": 3, "input_cached_tokens": 8, "output": 1, "total": 12}, {"input": 11, "cached": 8, "output": 1}),
        ({"input_tokens_details": {"cached_tokens": 9}}, {"cached": 9}),
        ({"output_tokens_details": {"reasoning_tokens": 9}}, {"reasoning": 9}),
        ({"input": 3, "input_cache_read": 7, "input_cache_creation": 1, "output_reasoning": 2}, {"cached": 7, "written": 1, "reasoning": 2}),
        ({"input": None, "note": "a text", "deep": {"a": [1]}}, {}),
    ],
)  # fmt: skip
def test_usage_details_are_read_as_openai_anthropic_langfuse_and_langchain_write_them(
    usage: dict[str, Any], expected: dict[str, int]
) -> None:
    facts = read_facts({"langfuse.observation.usage_details": msgspec.json.encode(usage).decode()}, {})

    assert facts | expected == facts


@pytest.mark.parametrize("broken", ["", "no JSON", "[1]", "5", '{"input": [1]}', "[" * 2000, 5, ["x"], '{"total": {}}'])
def test_invalid_json_is_ignored(broken: Value) -> None:
    assert (
        read_facts(dict.fromkeys(PARTS.keys() - {"metrics.character_count", "metrics.audio_seconds"}, broken), {}) == {}
    )


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"anthropic": {"usage": {"cache_read_input_tokens": 4, "input_tokens": 1}}}, {"vendor_input": 1, "cached": 4}),
        (
            {"anthropic": {"cacheReadInputTokens": 4}, "openai": {"reasoningTokens": 2}},
            {"cached": 4, "reasoning": 2, "counted_apart": True},
        ),
        (
            {"anthropic": {"cacheReadInputTokens": 4, "cacheCreationInputTokens": 6}},
            {"cached": 4, "written": 6, "counted_apart": True},
        ),
        ({"bedrock": {"usage": {"cacheReadInputTokens": 4, "cacheWriteInputTokens": 6}}}, {"cached": 4, "written": 6}),
        ({"openai": {"cachedPromptTokens": 4, "reasoningTokens": 2, "logprobs": [0]}}, {"cached": 4, "reasoning": 2}),
    ],
)
def test_vendors_counts_are_read_as_the_ai_sdk_passes_them_on(sent: dict[str, Any], expected: dict[str, int]) -> None:
    assert read_facts({"ai.response.providerMetadata": msgspec.json.encode(sent).decode()}, {}) == expected


def test_a_literal_of_langsmith_is_read_too() -> None:
    facts = read_facts(
        {
            "gen_ai.usage.input_token_details": "{'audio': 0, 'cache_read': 4}",
            "gen_ai.usage.output_token_details": "{'reasoning': 2}",
        },
        {},
    )

    assert facts == {"cached": 4, "reasoning": 2}


@pytest.mark.parametrize("reasons", [["stop"], '["stop"]', "stop", '"stop"'])
def test_finish_reasons_are_a_list_its_json_or_one_text(reasons: Value) -> None:
    assert read_facts({"gen_ai.response.finish_reasons": reasons}, {})["finish_reasons"] == ["stop"]


@pytest.mark.parametrize("sent", ["x" * 257, "a\0b", ["a"], 1.5, True])
def test_a_text_that_metadata_cannot_keep_is_left_out(sent: Value) -> None:
    assert read_facts({"session.id": sent}, {}) == {}


def test_a_number_is_a_user_too() -> None:
    assert read_facts({"user.id": 7}, {})["user"] == "7"


def test_a_resource_speaks_for_its_spans_where_they_do_not() -> None:
    of_resource = read_resource(
        {"service.name": "shop", "deployment.environment.name": "live", "user.id": "u", "gen_ai.request.model": "never"}
    )

    assert of_resource == {"service": "shop", "environment": "live", "user": "u"}
    assert read_facts({"user.id": "own"}, of_resource) == of_resource | {"user": "own"}


def test_attributes_that_people_add_are_kept_under_their_own_name() -> None:
    attributes: Attributes = {
        "traceloop.association.properties.tier": "u",
        "ai.telemetry.metadata.feature": "search",
        "langfuse.trace.metadata.team": "blue",
        "langfuse.observation.metadata.n": 5,
        "runtally.metadata.ok": True,
        "gen_ai.prompt.0.content": "never",
        "tenant.id": "t",
        "runtally.metadata.": "nameless",
    }

    assert read_free(attributes, frozenset({"tenant.id"})) == {
        "tier": "u", "feature": "search", "team": "blue", "n": 5, "ok": True, "tenant.id": "t",
    }  # fmt: skip


def test_a_text_of_langfuse_is_without_the_quotes_of_json() -> None:
    sent: Attributes = {
        "langfuse.trace.metadata.a": '"b \\" c"',
        "langfuse.trace.metadata.d": '"',
        "runtally.metadata.e": '"f"',
    }

    assert read_free(sent, frozenset()) == {"a": 'b " c', "d": '"', "e": '"f"'}


def test_a_list_of_langfuse_is_a_list() -> None:
    sent: Attributes = {
        "langfuse.trace.metadata.a": '["b", 1, true]',
        "langfuse.trace.metadata.c": "[d]",
        "runtally.metadata.e": '["f"]',
    }

    assert read_free(sent, frozenset()) == {"a": ["b", 1, True], "c": "[d]", "e": '["f"]'}


@pytest.mark.parametrize(
    "text", ['{"messages": ["never"]}', "{'content': 'never'}", ' [{"role": "never"}]', '["a", {"b": 1}]']
)
@pytest.mark.parametrize("prefix", FREE_PREFIXES)
def test_an_object_in_a_text_may_hold_content_and_is_left_out(prefix: str, text: str) -> None:
    assert read_free({f"{prefix}a": text, f"{prefix}b": [text], f"{prefix}c": "d {e}"}, frozenset()) == {"c": "d {e}"}


def test_a_field_below_a_prefix_and_what_langchain_adds_is_no_metadata() -> None:
    sent: Attributes = {
        "traceloop.association.properties.session_id": "s",
        "traceloop.association.properties.ls_model_name": "m",
    }

    assert read_facts(sent, {}) == {"session": "s"}
    assert read_free(sent, frozenset()) == {}


@pytest.mark.parametrize("large", ["x" * 257, ["a"] * 21, ["x" * 257], float("nan"), "a\0b"])
def test_large_or_invalid_values_are_left_out(large: Value) -> None:
    assert read_free({"runtally.metadata.a": large, "runtally.metadata.b": "c"}, frozenset()) == {"b": "c"}


def test_only_so_many_are_kept() -> None:
    sent: Attributes = {f"runtally.metadata.{number}": number for number in range(100)}

    assert len(read_free(sent, frozenset())) == MAX_FREE_KEYS

"""What a call used and how it ended, as instrumentations of all generations say it."""

from typing import Any

import pytest

from runtally.models.run import Status
from runtally.otlp.calls import ending, normalize_tokens, resolve_first_token, resolve_models
from tests.unit.otlp.factories import MS, NOON

TOKENS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "inclusive, as the convention has it": (
        {"input": 1200, "output": 350, "cached": 1000, "written": 50, "total": 1550}, {"input": 1200, "output": 350},
    ),
    "inclusive without a total": ({"input": 1200, "output": 350, "cached": 1000}, {"input": 1200, "output": 350}),
    "exclusive, known by its size": (
        {"input": 150, "output": 350, "cached": 1000, "written": 50}, {"input": 1200, "output": 350},
    ),
    "exclusive, known by the vendor's own count": (
        {"input": 1200, "output": 350, "cached": 1000, "written": 50, "total": 1550, "vendor_input": 1200},
        {"input": 2250, "output": 350},
    ),
    "exclusive, known by the form of the AI SDK's version 4": (
        {"input": 1200, "output": 350, "cached": 1000, "counted_apart": True}, {"input": 2200, "output": 350},
    ),
    "inclusive, known by the vendor's own count": (
        {"input": 1200, "output": 350, "cached": 1000, "written": 50, "vendor_input": 150}, {"input": 1200, "output": 350},
    ),
    "exclusive, known by its total": (
        {"input": 1500, "output": 350, "cached": 1000, "written": 50, "total": 2900}, {"input": 2550, "output": 350},
    ),
    "no input but a cached one": ({"cached": 5, "output": 1}, {"input": 5, "output": 1}),
    "reasoning in addition to the output, known by the total": (
        {"input": 1200, "output": 150, "reasoning": 200, "total": 1550}, {"input": 1200, "output": 350},
    ),
    "reasoning in the output": (
        {"input": 1200, "output": 350, "reasoning": 200, "total": 1550}, {"input": 1200, "output": 350},
    ),
    "reasoning that is more than the output, without a total": (
        {"input": 1200, "output": 150, "reasoning": 200}, {"input": 1200, "output": 150},
    ),
    "both beside": (
        {"input": 150, "output": 150, "cached": 100, "written": 20, "reasoning": 200, "total": 620}, {"input": 270, "output": 350},
    ),
    "all parts beside, as Langfuse flattens LangChain's": (
        {"input": 100, "output": 50, "cached": 10, "audio_input": 5, "reasoning": 20, "audio_output": 3, "total": 188},
        {"input": 115, "output": 73},
    ),
    "a total that says something else": (
        {"input": 100, "output": 50, "cached": 10, "total": 999}, {"input": 100, "output": 50},
    ),
    "an embedding": ({"input": 8, "total": 8}, {"input": 8}),
    "nothing": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "expected"), TOKENS.values(), ids=TOKENS.keys())
def test_parts_are_added_to_the_whole_where_they_are_counted_apart(
    sent: dict[str, int], expected: dict[str, int]
) -> None:
    facts: dict[str, Any] = {**sent}

    normalize_tokens(facts, has_failed=False)

    assert {name: facts[name] for name in ("input", "output") if name in facts} == expected
    assert {name: facts.get(name) for name in sent if name not in {"input", "output"}} == {
        name: value for name, value in sent.items() if name not in {"input", "output"}
    }


def test_a_zero_of_a_failed_call_counts_as_unknown() -> None:
    facts: dict[str, Any] = {"input": 0, "output": 0, "cached": 0}

    normalize_tokens(facts, has_failed=True)

    assert facts == {}


def test_a_call_that_did_not_fail_may_have_used_nothing() -> None:
    facts: dict[str, Any] = {"input": 8, "output": 0}

    normalize_tokens(facts, has_failed=False)

    assert facts == {"input": 8, "output": 0}


@pytest.mark.parametrize(("heard", "cached", "expected"), [(10, 4, 6), (4, 10, 0), (10, 0, 10)])
def test_cached_audio_is_charged_as_cached_alone(heard: int, cached: int, expected: int) -> None:
    facts: dict[str, Any] = {"audio_input": heard, "audio_cached": cached}

    normalize_tokens(facts, has_failed=False)

    assert facts["audio_input"] == expected


ENDINGS = [
    ({"error_type": "openai.RateLimitError"}, "", Status.ERROR, "RateLimitError"),
    ({"error_type": "429"}, "RateLimitError", Status.ERROR, "429"),
    ({}, "anthropic.APIConnectionError", Status.ERROR, "APIConnectionError"),
    ({}, "com.acme:Overloaded", Status.ERROR, "Overloaded"),
    ({"http_status": 429}, "", Status.ERROR, "429"),
    ({}, "", Status.ERROR, "unknown"),
    ({"error_type": "Cannot read: secret"}, "", Status.ERROR, "unknown"),
    ({"error_type": "<Bad>"}, "", Status.ERROR, "Bad"),
    ({"error_type": "é"}, "Error", Status.ERROR, "Error"),
    ({"error_type": "X" * 100}, "", Status.ERROR, "X" * 64),
    ({}, "openai.APITimeoutError", Status.TIMEOUT, "APITimeoutError"),
    ({}, "httpx.ReadTimeout", Status.TIMEOUT, "ReadTimeout"),
    ({}, "DEADLINE_EXCEEDED", Status.TIMEOUT, "DEADLINE_EXCEEDED"),
    ({}, "TimedOut", Status.TIMEOUT, "TimedOut"),
    ({"error_type": "504"}, "", Status.TIMEOUT, "504"),
    ({"http_status": 408}, "APIStatusError", Status.TIMEOUT, "APIStatusError"),
    ({"error_type": "5040"}, "", Status.ERROR, "5040"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "exception", "status", "code"), ENDINGS)
def test_an_error_code_is_a_class_or_a_status(facts: dict[str, Any], exception: str, status: Status, code: str) -> None:
    assert ending(facts, exception, has_failed=True) == (status, code)


def test_a_call_that_did_not_fail_has_no_code() -> None:
    assert ending({"error_type": "x", "http_status": 500}, "y", has_failed=False) == (Status.SUCCESS, None)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"first_token_s": 300, "first_token_ms": 200}, 300),
        ({"first_token_ms": 200}, 200),
        ({"first_token_s": 0, "first_token_ms": 200}, 0),
        ({"first_token_at": '"2026-09-21T14:13:20.250000Z"'}, 250),
        ({"first_token_at": "2026-09-21T14:13:20.250000+00:00"}, 250),
        ({"first_token_at": "2026-09-21T14:13:20.250000"}, 250),
        ({"first_token_at": "2026-09-21T14:13:19Z"}, None),
        ({"first_token_at": "no time"}, None),
        ({}, None),
    ],
)
def test_the_first_part_of_an_answer_came_after_so_many_milliseconds(
    facts: dict[str, Any], expected: int | None
) -> None:
    resolve_first_token(facts, NOON, 0)

    assert facts == ({} if expected is None else {"first_token": expected})
    assert NOON % (1000 * MS) == 0


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"model": "a", "other_model": "a-2024"}, {"model": "a", "response_model": "a-2024"}),
        ({"model": "a", "other_model": "a"}, {"model": "a"}),
        ({"model": "a", "response_model": "b", "other_model": "c"}, {"model": "a", "response_model": "b"}),
        ({"model": "cheap", "provider_model": "openai/gpt-4o"}, {"provider": "openai", "model": "gpt-4o"}),
        (
            {"provider": "open_ai", "response_model": "cheap", "provider_model": "openrouter/openai/gpt-4o"},
            {"provider": "openrouter", "model": "openai/gpt-4o", "response_model": "cheap"},
        ),
        ({"model": "a", "provider_model": "gpt-4o"}, {"model": "a"}),
    ],
)
def test_the_model_is_the_providers_own_and_a_second_name_that_of_the_response(
    facts: dict[str, Any], expected: dict[str, Any]
) -> None:
    resolve_models(facts)

    assert facts == expected

"""A call as the run that is stored: names, and the metadata that may pass."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from runtally.fields import MAX_METADATA_BYTES
from runtally.ingest.decode import BadRun
from runtally.models.run import StoredRun
from runtally.otlp.attributes import read_facts
from runtally.otlp.calls import latency_ms
from runtally.otlp.origins import ProjectRule
from runtally.otlp.runs import stored_run
from runtally.otlp.values import Value
from tests.unit.otlp.factories import MS, NOON, make_call


def run_of(**facts: Any) -> StoredRun:  # noqa: ANN401  # What is known of the call.
    run = stored_run(make_call(**facts))
    assert isinstance(run, StoredRun)
    return run


PROVIDERS = [
    ("openai", "openai", None),
    ("OpenAI", "openai", "OpenAI"),
    ("openai.chat", "openai", "openai.chat"),
    ("gcp.gemini", "google", "gcp.gemini"),
    ("gcp.vertex_ai", "google", "gcp.vertex_ai"),
    ("gcp.vertex.agent", "google", "gcp.vertex.agent"),
    ("aws.bedrock", "aws", "aws.bedrock"),
    ("azure.ai.openai", "azure", "azure.ai.openai"),
    ("az.ai.inference", "azure", "az.ai.inference"),
    ("mistral_ai", "mistral", "mistral_ai"),
    ("anthropic.messages", "anthropic", "anthropic.messages"),
    ("google.generative-ai", "google", "google.generative-ai"),
    ("vertex.anthropic.messages", "google", "vertex.anthropic.messages"),
    ("x_ai", "x-ai", "x_ai"),
    ("ollama", "ollama", None),
    ("Ollama", "ollama", "Ollama"),
    ("ollama.chat", "ollama", "ollama.chat"),
    ("ibm.watsonx.ai", "ibm.watsonx.ai", None),
]


@pytest.mark.parametrize(("sent", "stored", "name"), PROVIDERS)
def test_a_provider_is_stored_as_the_catalogue_calls_it(sent: str, stored: str, name: str | None) -> None:
    run = run_of(provider=sent)

    assert run.provider == stored
    assert (run.metadata or {}).get("providerName") == name


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"model": "claude-sonnet-4-5"}, "anthropic"),
        ({"model": "openrouter/openai/gpt-4o"}, "openrouter"),
        ({"model": "llama-3"}, "unknown"),
    ],
)
def test_a_missing_provider_is_read_from_the_model(facts: dict[str, Any], expected: str) -> None:
    assert run_of(**facts).provider == expected


def test_a_call_without_a_model_has_an_unknown_one() -> None:
    call = make_call()
    del call.facts["model"]

    run = stored_run(call)

    assert isinstance(run, StoredRun)
    assert (run.provider, run.model) == ("unknown", "unknown")


def test_all_that_is_known_is_in_its_field() -> None:
    run = run_of(
        cached=1, written=2, reasoning=3, audio_input=4, audio_output=5, cost=Decimal("1E-7"), experiment="e", session="s",
        user="u", tags=["a"], finish_reasons=["stop"], first_token=9,
    )  # fmt: skip

    assert (run.input_tokens, run.output_tokens, run.cached_input_tokens, run.cache_write_tokens) == (100, 50, 1, 2)
    assert (run.reasoning_tokens, run.audio_input_tokens, run.audio_output_tokens) == (3, 4, 5)
    assert (run.session_id, run.user_id, run.tags, run.experiment_id) == ("s", "u", ["a"], "e")
    assert (run.finish_reason, run.time_to_first_token_ms, run.latency_ms) == ("stop", 9, 1000)
    assert run.reported_cost_usd == Decimal("1E-7")
    assert run.occurred_at.timestamp() == NOON / (1000 * MS)


def test_metadata_has_these_names_and_no_others() -> None:
    facts: dict[str, Any] = {
        "service": "s", "environment": "e", "release": "r", "operation": "o", "response_model": "rm", "streamed": True,
        "finish_reasons": ["stop"], "agent": "a", "tool": "t", "prompt_name": "p", "request_id": "i", "error_type": "x",
        "first_token": 9, "session": "s", "user": "u", "tags": ["t"],
    }  # fmt: skip
    run = stored_run(make_call(parent=7, provider="OpenAI", **facts))

    assert isinstance(run, StoredRun)
    assert run.metadata == {
        "service": "s", "environment": "e", "release": "r", "instrumentation": "a", "operation": "o", "responseModel": "rm",
        "providerName": "OpenAI", "finishReasons": ["stop"], "streamed": True, "agent": "a", "tool": "t", "promptName": "p",
        "parentSpanId": "0000000000000007", "requestId": "i",
    }  # fmt: skip


def test_added_attributes_do_not_replace_metadata() -> None:
    run = stored_run(make_call(service="shop", free={"service": "other", "feature": "search"}))

    assert isinstance(run, StoredRun)
    assert run.metadata == {"service": "shop", "instrumentation": "a", "feature": "search"}


def test_an_operator_drops_what_they_name() -> None:
    call = make_call(session="s", user="u", tags=["a"], service="shop", free={"user_id": "u", "feature": "x"})

    run = stored_run(call, frozenset({"user", "session", "tags", "service", "feature"}))

    assert isinstance(run, StoredRun)
    assert (run.session_id, run.user_id, run.tags) == (None, None, None)
    assert run.metadata == {"instrumentation": "a"}


def test_metadata_that_is_too_large_loses_the_last_added_attributes() -> None:
    free: dict[str, Value] = {f"key-{number}": ["\U0001f600" * 250] * 2 for number in range(32)}
    run = stored_run(make_call(service="shop", free=free))

    assert isinstance(run, StoredRun)
    assert run.metadata is not None
    assert run.metadata["service"] == "shop"
    assert "key-0" in run.metadata
    assert "key-31" not in run.metadata
    assert len(msgspec.json.encode(run.metadata)) <= MAX_METADATA_BYTES


@pytest.mark.parametrize(
    ("sent", "tier"), [("flex", "flex"), ("PRIORITY", "priority"), ("default", None), ("auto", None)]
)
def test_a_service_tier_with_a_price_of_its_own_is_kept(sent: str, tier: str | None) -> None:
    assert run_of(tier=sent).service_tier == tier


def test_the_tier_that_answered_counts_and_not_the_one_that_was_asked_for() -> None:
    asked, answered = "openai.request.service_tier", "openai.response.service_tier"
    assert read_facts({asked: "flex", answered: "default"}, {})["tier"] == "default"
    assert read_facts({asked: "flex"}, {})["tier"] == "flex"


def test_long_tags_and_reasons_are_left_out() -> None:
    run = run_of(tags=["x" * 65, "short"], finish_reasons=["x" * 65, "stop"])

    assert (run.tags, run.finish_reason) == (["short"], "stop")


@pytest.mark.parametrize(
    ("field", "path"), [("model", "model"), ("provider", "provider"), ("experiment", "experimentId")]
)
@pytest.mark.parametrize("value", ["x" * 257, "a\0b"])
def test_an_invalid_name_is_reported_without_the_value(field: str, path: str, value: str) -> None:
    facts: dict[str, Any] = {field: value}
    run = stored_run(make_call(**facts))

    assert isinstance(run, BadRun)
    assert [detail.path for detail in run.details] == [path]
    assert value not in run.details[0].message


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (NOON, NOON + 1_499_999, 1),
        (NOON, NOON + 1_500_001, 2),
        (NOON, NOON - 1, None),
        (0, NOON, None),
        (NOON, 0, None),
    ],
)
def test_a_latency_is_rounded_and_unknown_of_a_call_that_ends_before_it_starts(
    start: int, end: int, expected: int | None
) -> None:
    assert latency_ms(start, end) == expected


RESOURCES = [
    ({"runtally.project": "a", "openinference.project.name": "b", "service.name": "c"}, "a"),
    ({"openinference.project.name": "b", "service.name": "c"}, "b"),
    ({"service.name": " c "}, "c"),
    ({"service.name": "unknown_service:python"}, "default"),
    ({"runtally.project": "x" * 129, "service.name": "c"}, "c"),
    ({"runtally.project": "\0", "service.name": " "}, "default"),
    ({"runtally.project": 5}, "default"),
    ({}, "default"),
]


@pytest.mark.parametrize(("resource", "expected"), RESOURCES)
def test_a_resource_names_its_project(resource: dict[str, Any], expected: str) -> None:
    assert ProjectRule(None, "default").project_of(resource) == expected
    assert ProjectRule("named", "default").project_of(resource) == "named"

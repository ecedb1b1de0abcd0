"""The counts of a vendor's usage object in a run's metadata."""

import json as text
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.client.formats.declaration import by_name
from runtally.client.formats.registry import FORMATS
from runtally.fields import MAX_COUNT, camel
from runtally.files import CHECKOUT
from runtally.ingest.normalize import normalize
from runtally.ingest.usage import fill_from_usage
from runtally.ingest.wire import WireRun
from runtally.models.run import StoredRun
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode
from runtally.units import TOKEN_KINDS

CASES = text.loads((CHECKOUT / "clients" / "usage_cases.json").read_text())
RULE = ContentRule.of(PrivacyMode.STRICT, CONTENT_KEYS.split(","))
NOW = datetime(2026, 11, 25, tzinfo=UTC)
CHAT = {
    "prompt_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 7, "accepted_prediction_tokens": 0},
}
REALTIME = {
    "input_token_details": {"cached_tokens": 9, "audio_tokens": 8, "cached_tokens_details": {"audio_tokens": 5}},
    "output_token_details": {"text_tokens": 1, "audio_tokens": 7},
}
ANTHROPIC = {
    "input_tokens": 10,
    "cache_read_input_tokens": 2000,
    "cache_creation_input_tokens": 5,
    "cache_creation": {"ephemeral_1h_input_tokens": 5},
}


def run_of(usage: dict[str, Any], **fields: Any) -> StoredRun:  # noqa: ANN401  # As the fields are.
    sent = {"provider": "acme", "model": "acme-large", "metadata": {"usage": usage}, **fields}
    return normalize(msgspec.json.decode(msgspec.json.encode(sent), type=WireRun), "p", NOW, RULE).run


def counts_of(run: StoredRun) -> dict[str, Any]:
    """Return the run's counts by the names of the wire."""
    wire = {camel(kind.count_column): getattr(run, kind.count_column) for kind in TOKEN_KINDS}
    others = {"units": run.units, "serviceTier": run.service_tier, "region": run.region}
    return {name: value for name, value in (wire | others).items() if value is not None}


@pytest.mark.parametrize("case", CASES, ids=[case["of"] for case in CASES])
def test_an_object_in_the_metadata_is_read_as_both_clients_read_it(case: dict[str, Any]) -> None:
    run = run_of(case["usage"])

    assert counts_of(run) == {name: value for name, value in case["run"].items() if name != "costUSD"}


# LiteLLM has the sums of what Anthropic lists as steps.
LITELLMS = [case for case in CASES if "iterations" not in case["usage"]]


@pytest.mark.parametrize("case", LITELLMS, ids=[case["of"] for case in LITELLMS])
def test_an_object_in_litellms_spend_logs_is_read_as_well(case: dict[str, Any]) -> None:
    row = {
        "request_id": "a",
        "call_type": "acompletion",
        "spend": 0,
        "custom_llm_provider": "acme",
        "model": "acme-large",
        "metadata": text.dumps({"usage_object": case["usage"]}),
    }
    [sent] = FORMATS["litellm"].read(by_name(row))
    body = msgspec.json.Encoder(decimal_format="number").encode(sent)
    run = normalize(msgspec.json.decode(body, type=WireRun), "p", NOW, RULE).run

    assert counts_of(run) == {name: value for name, value in case["run"].items() if name != "costUSD"}


def test_a_field_that_was_sent_is_kept() -> None:
    run = run_of(CHAT, inputTokens=21, cachedInputTokens=3, units={"webSearch": 2}, serviceTier="flex", region="eu")

    assert (run.input_tokens, run.cached_input_tokens, run.reasoning_tokens) == (21, 3, 3)
    assert (run.units, run.service_tier, run.region) == ({"webSearch": 2}, "flex", "eu")


def test_an_input_that_was_sent_as_anthropic_counts_it_is_completed() -> None:
    run = run_of(ANTHROPIC, inputTokens=10)

    assert (run.input_tokens, run.cached_input_tokens, run.cache_write_tokens) == (2_015, 2_000, 5)
    assert run.units == {"cacheWrite1h": 5}


def test_cached_tokens_are_left_out_where_the_sent_input_cannot_hold_them() -> None:
    run = run_of(ANTHROPIC, inputTokens=11)

    assert (run.input_tokens, run.cached_input_tokens, run.cache_write_tokens, run.units) == (11, None, None, None)


def test_an_output_that_was_sent_without_its_reasoning_is_completed() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 15, "reasoning_tokens": 3}

    assert run_of(usage, inputTokens=7, outputTokens=5).output_tokens == 8
    assert run_of(usage, inputTokens=7, outputTokens=6).output_tokens == 6


def token_parts(usage: dict[str, object]) -> dict[str, int]:
    run = run_of({})
    fill_from_usage(run, usage)
    counts = {kind.count_column: getattr(run, kind.count_column) for kind in TOKEN_KINDS}
    return {name: count for name, count in counts.items() if count is not None}


@pytest.mark.parametrize(("cached", "left"), [(None, 8), (0, 8), (7, 1), (8, 0), (9, 0)])
def test_audio_that_was_cached_is_charged_as_cached_and_never_below_nothing(cached: int | None, left: int) -> None:
    details = {"audio_tokens": 8, "cached_tokens_details": {"audio_tokens": cached}}

    assert token_parts({"input_token_details": details}) == ({"audio_input_tokens": left} if left else {})


@pytest.mark.parametrize("value", [-1, 1.5, True, "4", None, MAX_COUNT + 1, [4]], ids=repr)
def test_invalid_counts_are_ignored(value: object) -> None:
    assert token_parts({"prompt_tokens_details": {"cached_tokens": value, "audio_tokens": value}}) == {}


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*CHAT, *REALTIME]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*CHAT, *REALTIME]), json))
def test_nothing_that_may_stand_there_breaks_it(usage: dict[str, object]) -> None:
    assert all(0 <= part <= MAX_COUNT for part in token_parts(usage).values())


@pytest.mark.parametrize("count", [0, 1, 2**53 - 1])
def test_counts_from_nothing_to_the_largest_are_counts(count: int) -> None:
    found = token_parts({"prompt_tokens_details": {"cached_tokens": count}})

    assert found == {"cached_input_tokens": count}
    assert token_parts({"prompt_tokens_details": {"cached_tokens": 2**53}}) == {}

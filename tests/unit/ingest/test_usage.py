"""Parts of a run's tokens in its metadata."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.fields import MAX_COUNT
from runtally.ingest.usage import token_parts

CHAT = {
    "prompt_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 7, "accepted_prediction_tokens": 0},
}
RESPONSES = {"input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 3}}
REALTIME = {
    "input_token_details": {"cached_tokens": 9, "audio_tokens": 8, "cached_tokens_details": {"audio_tokens": 5}},
    "output_token_details": {"text_tokens": 1, "audio_tokens": 7},
}
ANTHROPIC = {"input_tokens": 10, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 5}


@pytest.mark.parametrize(
    ("usage", "parts"),
    [
        (CHAT, {"cached_input_tokens": 4, "reasoning_tokens": 3, "audio_input_tokens": 6, "audio_output_tokens": 7}),
        (RESPONSES, {"cached_input_tokens": 4, "reasoning_tokens": 3}),
        # What was cached of the audio is charged as cached.
        (REALTIME, {"cached_input_tokens": 9, "audio_input_tokens": 3, "audio_output_tokens": 7}),
        # Its cached tokens are none of its input tokens.
        (ANTHROPIC, {}),
    ],
    ids=["chat", "responses", "realtime", "anthropic"],
)
def test_parts_are_read_as_each_interface_names_them(usage: dict[str, object], parts: dict[str, int]) -> None:
    assert token_parts(usage) == parts


@pytest.mark.parametrize(("cached", "left"), [(None, 8), (0, 8), (7, 1), (8, 0), (9, 0)])
def test_audio_that_was_cached_is_charged_as_cached_and_never_below_nothing(cached: int | None, left: int) -> None:
    details = {"audio_tokens": 8, "cached_tokens_details": {"audio_tokens": cached}}

    assert token_parts({"input_token_details": details}) == {"audio_input_tokens": left}


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

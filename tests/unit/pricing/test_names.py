"""The ways to write one model's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.pricing.match import spellings_of


@pytest.mark.parametrize(
    ("dialect", "model", "expected"),
    [
        ("openai", "GPT-4o", ["gpt-4o"]),
        ("openai", "gpt-4o-2024-08-06", ["gpt-4o-2024-08-06", "gpt-4o"]),
        ("openai", "gpt-5.2-20251211", ["gpt-5.2-20251211", "gpt-5.2-2025-12-11", "gpt-5.2"]),
        ("openai", "gpt-4-0613", ["gpt-4-0613", "gpt-4"]),
        ("anthropic", "claude-3-5-sonnet-latest", ["claude-3-5-sonnet-latest", "claude-3-5-sonnet"]),
        ("google", "claude-opus-4@20250514", ["claude-opus-4@20250514", "claude-opus-4"]),
        ("google", "models/gemini-1.5-pro-002", ["models/gemini-1.5-pro-002", "gemini-1.5-pro-002", "gemini-1.5-pro"]),
        (
            "google",
            "publishers/google/models/gemini-2.5-pro",
            ["publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"],
        ),
        (
            "aws",
            "us.anthropic.claude-3-5-haiku-20241022-v1:0",
            [
                "us.anthropic.claude-3-5-haiku-20241022-v1:0",
                "anthropic.claude-3-5-haiku-20241022-v1:0",
                "anthropic.claude-3-5-haiku-20241022",
                "claude-3-5-haiku-20241022",
                "claude-3-5-haiku-2024-10-22",
                "claude-3-5-haiku",
            ],
        ),
        # The year and month of other vendors name different models.
        ("mistral", "mistral-large-2407", ["mistral-large-2407"]),
        ("deepseek", "deepseek-v3.1", ["deepseek-v3.1"]),
        ("openai", "o1-pro", ["o1-pro"]),
        ("openai", "gpt-4o-audio-preview", ["gpt-4o-audio-preview"]),
        ("openrouter", "openai/gpt-4o:extended", ["openai/gpt-4o:extended"]),
        ("openrouter", "deepseek/deepseek-r1:free", ["deepseek/deepseek-r1:free"]),
        ("google", "models/gemini-2.5-pro:free", ["models/gemini-2.5-pro:free"]),
    ],
)
def test_only_writing_is_undone(dialect: str, model: str, expected: list[str]) -> None:
    assert [name for name, _ in spellings_of(dialect, model)] == expected


@pytest.mark.parametrize(("suffix", "estimated"), [("beta", False), ("batch", True), ("nitro", True), ("online", True)])
def test_a_way_of_serving_may_make_an_estimate(suffix: str, estimated: bool) -> None:
    assert list(spellings_of("openrouter", f"openai/gpt-4o:{suffix}"))[-1] == ("openai/gpt-4o", estimated)


@given(st.sampled_from(["aws", "google", "openai"]), st.text(max_size=80))
def test_the_name_as_sent_comes_first(dialect: str, model: str) -> None:
    first, *others = spellings_of(dialect, model)

    assert first == (model.lower(), False)
    assert all(len(name) <= len(model.lower()) + 2 for name, _ in others)

"""Whose model it is, by its name."""

import pytest

from runtally.client.fields import provider_and_model


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openrouter/anthropic/claude-3.5-sonnet", ("openrouter", "anthropic/claude-3.5-sonnet")),
        ("deepseek/deepseek-chat", ("deepseek", "deepseek-chat")),
        ("claude-sonnet-5-5", ("anthropic", "claude-sonnet-5-5")),
        ("gpt-6.1-terra", ("openai", "gpt-6.1-terra")),
        ("o3-mini", ("openai", "o3-mini")),
        ("o1", ("openai", "o1")),
        ("Gemini-3.5-Flash", ("google", "Gemini-3.5-Flash")),
        ("mistral-small-2603", ("mistral", "mistral-small-2603")),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", ("aws", "us.anthropic.claude-3-5-haiku-20241022-v1:0")),
    ],
)
def test_a_name_that_belongs_to_one_provider_tells_it(name: str, expected: tuple[str, str]) -> None:
    assert provider_and_model(name) == expected


@pytest.mark.parametrize("name", ["llama-3-70b", "qwen-2.5", "omni", "o", "/claude", "claude/", "m-small"])
def test_a_name_that_could_be_anyone_s_is_left_alone(name: str) -> None:
    assert provider_and_model(name) == (None, name)

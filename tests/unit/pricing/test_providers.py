"""The many names of a provider, and whose prices are asked."""

import pytest

from runtally.pricing.providers import Target, canonical, targets_of


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("google", "google"),
        (" Gemini ", "google"),
        ("vertex_ai", "google"),
        ("google-vertex", "google"),
        ("google_genai", "google"),
        ("Google Generative AI", "google"),
        ("AWS", "aws"),
        ("bedrock", "aws"),
        ("amazon-bedrock", "aws"),
        ("aws.bedrock", "aws"),
        ("azure_ai", "azure"),
        ("Azure-OpenAI", "azure"),
        ("xai", "x-ai"),
        ("x_ai", "x-ai"),
        ("mistralai", "mistral"),
        ("together_ai", "together"),
        ("togetherai", "together"),
        ("fireworks_ai", "fireworks"),
        ("moonshot", "moonshotai"),
        ("openai.chat", "openai"),
        ("OpenAI", "openai"),
        ("openai-compatible", "openai-compatible"),
        ("My Gateway", "my-gateway"),
    ],
)
def test_a_provider_is_known_by_many_names(sent: str, expected: str) -> None:
    assert canonical(sent) == expected


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "gpt-4o", [Target("openai", "gpt-4o", "openai")]),
        # An entry for the name as sent comes before the provider's.
        ("gemini", "g", [Target("gemini", "g", "google"), Target("google", "g", "google")]),
        (
            "openai",
            "openai/gpt-4o",
            [Target("openai", "openai/gpt-4o", "openai"), Target("openai", "gpt-4o", "openai")],
        ),
    ],
)
def test_a_provider_is_asked_under_its_own_name_first(provider: str, model: str, expected: list[Target]) -> None:
    found = list(targets_of(provider, model))

    assert found[: len(expected)] == expected


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openrouter", "openai/gpt-4o", [("openai", "gpt-4o")]),
        ("openrouter", "openrouter/openai/gpt-4o", [("openai", "gpt-4o")]),
        ("openrouter", "gpt-4o", []),
        (
            "azure",
            "gpt-4o",
            [(vendor, "gpt-4o") for vendor in ("openai", "anthropic", "deepseek", "x-ai", "moonshotai")],
        ),
        ("vertex_ai", "claude-3-opus", [("anthropic", "claude-3-opus")]),
        ("bedrock", "anthropic.claude-v2", [("anthropic", "anthropic.claude-v2")]),
        ("openai", "anthropic/claude-3-opus", []),
    ],
)
def test_a_price_of_another_provider_is_borrowed(provider: str, model: str, expected: list[tuple[str, str]]) -> None:
    assert [(asked, name) for asked, name, _, borrowed in targets_of(provider, model) if borrowed] == expected


@pytest.mark.parametrize("gateway", ["litellm", "vercel", "portkey"])
def test_a_gateway_passes_its_vendors_price_on(gateway: str) -> None:
    assert Target("openai", "gpt-4o", "openai") in list(targets_of(gateway, "openai/gpt-4o"))


@pytest.mark.parametrize("model", ["litellm/vercel/portkey/gpt-4o", "/", "//", "litellm/", "/gpt-4o", "a/" * 128])
def test_odd_names_end(model: str) -> None:
    assert len(list(targets_of("litellm", model))) < 10

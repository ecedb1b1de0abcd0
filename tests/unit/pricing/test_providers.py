"""The many names of a provider, and whose prices are asked."""

import pytest

from runtally.pricing.providers import Target, canonical, provider_key, stored_name, targets_of


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
        ("openai-chat", "openai"),
        ("cohere_chat", "cohere"),
        ("gcp-vertex-ai", "google"),
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


@pytest.mark.parametrize(("model", "vendor"), [("nova-lite-v1:0", "amazon"), ("llama3-8b-instruct-v1:0", "meta")])
def test_a_name_of_bedrock_is_looked_up_with_the_vendor_that_was_cut_off(model: str, vendor: str) -> None:
    assert Target("aws", f"{vendor}.{model}", "aws") in list(targets_of("aws.bedrock", model))


@pytest.mark.parametrize(
    "gateway",
    [
        "ai-gateway", "cloudflare-ai-gateway", "helicone", "litellm", "litellm-proxy", "portkey", "vercel",
        "Vercel AI Gateway",
    ],
)  # fmt: skip
def test_a_gateway_passes_its_vendors_price_on(gateway: str) -> None:
    assert Target("openai", "gpt-4o", "openai") in list(targets_of(gateway, "openai/gpt-4o"))


@pytest.mark.parametrize("model", ["litellm/vercel/portkey/gpt-4o", "/", "//", "litellm/", "/gpt-4o", "a/" * 128])
def test_odd_names_end(model: str) -> None:
    assert len(list(targets_of("litellm", model))) < 10


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("vercel", "open-ai/o3", [("vercel", "open-ai/o3"), ("open-ai", "o3"), ("openai", "o3")]),
        # A gateway behind a gateway passes nothing on that its name would tell.
        ("vercel", "litellm/gpt-4o", [("vercel", "litellm/gpt-4o")]),
        ("litellm", "litellm/openai/gpt-4o", [
            ("litellm", "litellm/openai/gpt-4o"),
            ("litellm", "openai/gpt-4o"),
            ("openai", "gpt-4o"),
        ]),
        ("vercel", " gpt-4o ", [("vercel", "gpt-4o")]),
        ("openai", "anthropic/claude", [("openai", "anthropic/claude")]),
        ("openai", "openai/", [("openai", "openai/")]),
        ("XAI", "grok", [("xai", "grok"), ("x-ai", "grok")]),
        ("xai", "x-ai/grok", [("xai", "x-ai/grok"), ("x-ai", "x-ai/grok"), ("xai", "grok"), ("x-ai", "grok")]),
    ],
)  # fmt: skip
def test_prices_are_looked_up_in_this_order(provider: str, model: str, expected: list[tuple[str, str]]) -> None:
    assert [(target.provider, target.model) for target in targets_of(provider, model)][: len(expected)] == expected
    assert not any(target.borrowed for target in targets_of(provider, model))
    assert len(list(targets_of(provider, model))) == len(expected)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("OpenAI", "openai"),
        (" openai.chat ", "openai"),
        ("azure.ai.openai", "azure"),
        ("gcp.vertex_ai", "google"),
        (" Google.Other", "google"),
        ("google.generative-ai", "google"),
        ("anthropic.messages", "anthropic"),
        (" Acme ", "acme"),
        ("Acme.chat", "acme"),
        ("Acme.de", "acme.de"),
        (".chat", ".chat"),
    ],
)
def test_a_provider_is_stored_under_the_name_of_the_catalogue_or_as_sent(sent: str, stored: str) -> None:
    assert stored_name(sent) == stored


def test_the_key_of_a_name_has_dashes_between_its_words() -> None:
    assert provider_key("  My_Own  Gateway./v2 ") == "my-own-gateway-v2"


@pytest.mark.parametrize(("sent", "known"), [("zai", "zai"), ("zai-chat", "zai"), ("acme-chat", "acme-chat")])
def test_only_an_interface_of_a_known_provider_is_left_out(sent: str, known: str) -> None:
    assert canonical(sent) == known

"""The names that clients use for providers, and the provider whose prices apply to a model. Pure.

A provider is looked up under its name as sent before any alias, so that an entry of one's own for `vertex_ai` wins over
Google's.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from runtally.remembered import remembered

# Names that SDKs, tracers and proxies use for providers, as `provider_key` writes them; Pipecat's are those of its classes.
_ALIASES: dict[str, tuple[str, ...]] = {
    "anthropic": ("anthropic-text", "chatanthropic", "claude"),
    "aws": (
        "amazon", "amazon-bedrock", "amazon-bedrock-converse", "aws-bedrock", "awsbedrock", "bedrock", "bedrock-converse",
        "bedrock-runtime", "chatbedrock", "chatbedrockconverse",
    ),
    "assemblyai": ("assemblyaisync",),
    "azure": (
        "azure-ai", "azure-ai-inference", "azure-ai-openai", "azure-foundry", "azure-openai", "azure-text",
        "azurechatopenai", "azurerealtime", "az-ai-inference", "az-ai-openai", "microsoft-azure", "microsoft-foundry",
    ),
    "cartesia": ("cartesiahttp", "cartesiaturns"),
    "cloudflare": ("cloudflare-workers-ai", "workers-ai"),
    "cohere": ("cohere-chat", "chatcohere"),
    "deepgram": ("deepgramflux", "deepgramhttp"),
    "deepseek": ("deepseek-ai", "chatdeepseek"),
    "elevenlabs": ("elevenlabsdialogue", "elevenlabshttp", "elevenlabsrealtime"),
    "fireworks": ("fireworks-ai", "fireworksai", "chatfireworks"),
    "github-copilot": ("copilot", "githubcopilot"),
    "google": (
        "chatgooglegenerativeai", "chatvertexai", "gcp-gemini", "gcp-gen-ai", "gcp-genai", "gcp-vertex-agent", "gcp-vertex-ai", "gemini",
        "geminilive", "geminilivevertex", "googlehttp",
        "google-ai", "google-ai-studio", "google-genai", "google-generative-ai", "google-gla", "google-vertex",
        "google-vertex-ai", "google-vertexai", "palm", "vertex", "vertex-ai", "vertex-ai-beta", "vertexai",
    ),
    "groq": ("chatgroq", "groqcloud"),
    "minimax": ("minimaxi",),
    "mistral": ("chatmistralai", "codestral", "mistral-ai", "mistralai"),
    "moonshotai": ("moonshot", "moonshot-ai", "kimi"),
    "novita": ("novita-ai", "novitaai"),
    "openai": (
        "chatopenai", "openai-chat", "openai-responses", "openailive", "openairealtime", "openairesponses", "openairesponseshttp",
        "open-ai", "text-completion-openai",
    ),
    "openrouter": ("chatopenrouter", "open-router", "openrouter-ai"),
    "ovhcloud": ("ovh", "ovh-ai-endpoints"),
    "perplexity": ("chatperplexity", "perplexity-ai", "perplexityagenthttp", "perplexityai", "pplx"),
    "together": ("together-ai", "togetherai", "chattogether", "together-computer", "togethercomputer"),
    "voyageai": ("voyage", "voyage-ai"),
    "x-ai": ("xai", "xaihttp", "chatxai", "grokrealtime"),
    "zai": ("z-ai",),
    "zhipuai": ("zhipu", "zhipu-ai", "bigmodel"),
}  # fmt: skip
_BY_ALIAS = {alias: provider for provider, aliases in _ALIASES.items() for alias in aliases}

# Gateways pass a request on at its vendor's price; the model's name shows which vendor that is.
_GATEWAYS = frozenset({"ai-gateway", "cloudflare-ai-gateway", "helicone", "litellm", "litellm-proxy", "portkey", "vercel",
                       "vercel-ai-gateway"})  # fmt: skip
# A routing aggregator has prices of its own, close to the vendor's.
_AGGREGATORS = frozenset({"openrouter"})
# Clouds that resell others' models, mostly at the vendor's list price; the likeliest vendor first.
_RESELLS = {
    "aws": ("anthropic",),
    "azure": ("openai", "anthropic", "deepseek", "x-ai", "moonshotai"),
    "google": ("anthropic",),
}
# Vercel's AI SDK adds which of a provider's interfaces was called.
_INTERFACE = re.compile(r"-(?:chat|completion|embedding|generative-ai|image|messages|responses)$")
_DOTTED_INTERFACE = re.compile(r"(?<=.)\.(?:chat|completion|embedding|generative-ai|image|messages|responses)$")
# OpenLLMetry cuts the vendor off the ids of Bedrock: `nova-lite-v1:0`.
_CUT_OFF = {"aws": ("amazon", "cohere", "deepseek", "meta", "mistral", "openai", "qwen", "writer")}
_SEPARATORS = re.compile(r"[\s_./]+")


class Target(NamedTuple):
    """A provider whose prices to use for a model, with `dialect` as its way of writing names.

    `borrowed` means that it is not the provider that the run was sent to: then its price is an estimate.
    """

    provider: str
    model: str
    dialect: str
    borrowed: bool = False


def provider_key(name: str) -> str:
    """Return the name in the form in which providers are compared: lower case, words joined by dashes."""
    return _SEPARATORS.sub("-", name.strip().lower())


def canonical(name: str) -> str:
    """Return the provider of the catalogue that the name stands for, or the name's key if there is none."""
    key = provider_key(name)
    shorter = _INTERFACE.sub("", key)
    return _BY_ALIAS.get(shorter, shorter if shorter in _ALIASES else key)


@remembered(1_024)
def stored_name(name: str) -> str:
    """Return the catalogue's name of the provider; other names in lower case, without the called interface."""
    for written in (name, name.partition(".")[0]):
        known = canonical(written)
        if known in _ALIASES:
            return known
    return _DOTTED_INTERFACE.sub("", name.strip().lower())


def targets_of(provider: str, model: str) -> Iterator[Target]:
    """Yield the providers to look up: by its own name, by its catalogue name, then those whose models it resells."""
    key, known = provider_key(provider), canonical(provider)
    name = _without_provider(known, model.strip())
    # The name as sent first: in some catalogues the repeated provider belongs to it.
    for written in dict.fromkeys((model.strip(), name)):
        for asked in dict.fromkeys((key, known)):
            yield Target(asked, written, known)
    vendor, _, rest = name.partition("/")
    if rest and known in _GATEWAYS and canonical(vendor) not in _GATEWAYS:
        yield from targets_of(vendor, rest)
    if rest and known in _AGGREGATORS:
        yield Target(canonical(vendor), rest, canonical(vendor), borrowed=True)
    for vendor in _CUT_OFF.get(known, ()):
        yield Target(known, f"{vendor}.{name}", known)
    for other in _RESELLS.get(known, ()):
        yield Target(other, name, known, borrowed=True)


def _without_provider(known: str, model: str) -> str:
    """Remove the provider from the model's name: `anthropic/claude` for `openrouter/anthropic/claude` at OpenRouter.

    Any other path is left alone.
    """
    head, _, rest = model.partition("/")
    return _without_provider(known, rest) if rest and canonical(head) == known else model

"""Find the provider of a model, for files that name only the model.

A machine that imports has the API and no price book, so this is a short table of names that belong to one provider
wherever they are seen. A model that many hosts serve (`llama-3`, `qwen-2.5`) is in none of them, and its provider has to
be said.
"""

import re
from typing import Final

_BY_NAME: Final = (
    (re.compile(r"(gpt-|chatgpt-|o\d(-|$)|text-embedding-|codex-)"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(gemini-|learnlm-)"), "google"),
    (re.compile(r"(mistral-|ministral-|magistral-|codestral-|devstral-|pixtral-|open-mi[sx]tral-)"), "mistral"),
    (re.compile(r"deepseek-"), "deepseek"),
    (re.compile(r"grok-"), "x-ai"),
    (re.compile(r"command(-|$)"), "cohere"),
    (re.compile(r"sonar(-|$)"), "perplexity"),
    # Bedrock's ids: `anthropic.claude-...`, `us.anthropic.claude-...`, `amazon.nova-...`.
    (re.compile(r"((us|eu|apac|global)\.)?(anthropic|amazon|meta|cohere|mistral)\."), "aws"),
)


def provider_and_model(name: str) -> tuple[str | None, str]:
    """The provider and the provider's own name of the model.

    `openrouter/anthropic/claude-3.5-sonnet` is split at the first slash, as litellm writes it. A name without one is
    looked up; None means that it could be anyone's.
    """
    provider, slash, model = name.partition("/")
    if slash and provider and model:
        return provider, model
    return next((known for pattern, known in _BY_NAME if pattern.match(name.casefold())), None), name

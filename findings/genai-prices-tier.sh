#!/usr/bin/env bash
# genai-prices (and Pydantic AI, which prices with it): an answer says how it was charged, half for flex and batch, 2 times for priority, 1.1 times for inference
# in the US, and its cost is the usual one all the same, as "the price" without a mark. A nightly job in flex seems to cost twice what the invoice says.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install genai-prices==0.2.3 litellm==1.110.2 > /dev/null 2>&1 || exit 2
LITELLM_LOCAL_MODEL_COST_MAP=True timeout 120 "$folder/v/bin/python" -W ignore - 2> /dev/null <<'PY'
import sys
from importlib.metadata import version

import litellm
from genai_prices import extract_usage

CHAT = {"prompt_tokens": 2903, "completion_tokens": 411, "total_tokens": 3314}
CLAUDE = {"input_tokens": 1019, "output_tokens": 704, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def of_chat(tier):
    """The prices of an answer of OpenAI's chat that names this tier: by genai-prices, and by LiteLLM."""
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.4", "service_tier": tier, "usage": CHAT,
              "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}]}
    ours = extract_usage(answer, provider_id="openai", api_flavor="chat").calc_price().total_price
    return float(ours), litellm.completion_cost(litellm.ModelResponse(**answer), model="gpt-5.4", service_tier=tier)


def of_claude(**more):
    answer = {"model": "claude-opus-4-6", "usage": {**CLAUDE, **more}}
    return float(extract_usage(answer, provider_id="anthropic").calc_price().total_price)


print("genai-prices", version("genai-prices"), "litellm", version("litellm"))
print("guess: flex is half of default, priority twice; Anthropic's batch is half, its US inference 1.1 times")
usual, usual_litellm = of_chat("default")
factors = []
for tier in ("flex", "priority"):
    price, other = of_chat(tier)
    factors.append((round(price / usual, 2), round(other / usual_litellm, 2)))
    print(f"seen: gpt-5.4 in {tier}: {factors[-1][0]} times the usual price; LiteLLM: {factors[-1][1]} times")
claude = [round(of_claude(**more) / of_claude(), 2) for more in ({"service_tier": "batch"}, {"inference_geo": "us"})]
print(f"seen: claude-opus-4-6 in a batch: {claude[0]} times the usual price; with inference in the US: {claude[1]} times")
sys.exit(0 if factors == [(1.0, 0.5), (1.0, 2.0)] and claude == [1.0, 1.0] else 1)
PY

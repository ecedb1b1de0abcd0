"""Writes tests/unit/pricing/litellm_prices.json from a wheel of litellm.

    pip download --no-deps litellm
    python scripts/litellm_prices.py litellm-1.109.1-….whl

The wheel is 40 MB and asks for dozens of packages; of all that, tests want the prices per token.
"""

import json
import re
import sys
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from email.parser import Parser
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "tests" / "unit" / "pricing" / "litellm_prices.json"
# Of those that the catalogue knows as well.
PROVIDERS = re.compile(
    "anthropic|azure|azure_ai|bedrock|bedrock_converse|cerebras|cohere|cohere_chat|deepseek|fireworks_ai|gemini|groq|mistral|"
    "moonshot|novita|openai|perplexity|text-completion-openai|together_ai|vertex_ai.*|voyage|xai|zai"
)
MODES = {"chat", "responses", "completion", "embedding"}
# Their names for prices per token, and what they are called here.
KINDS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cacheRead",
    "cache_creation_input_token_cost": "cacheWrite",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "audioInput",
    "output_cost_per_audio_token": "audioOutput",
}
ABOVE = re.compile(r"(?P<kind>\w+?)_above_(?P<thousands>\d+)k_tokens")
# What varies otherwise than by the number of tokens.
ELSEWHERE = {"tiered_pricing", "off_peak_pricing"}


def main(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        prices = json.loads(archive.read("litellm/model_prices_and_context_window_backup.json"), parse_float=Decimal)
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    models = {name: found for name, entry in sorted(prices.items()) if (found := prices_of(entry))}
    about = {
        "package": f"litellm {metadata['Version']}",
        "taken": f"{datetime.now(UTC):%Y-%m-%d}",
        "licence": "MIT, Copyright (c) 2023 Berri AI",
        "unit": "US dollars per million tokens; by litellm's provider and model",
    }
    lines = ",\n".join(f"{_json(name)}:{_json(found)}" for name, found in models.items())
    TARGET.write_text(f'{{"about": {json.dumps(about)},\n"models": {{\n{lines}\n}}}}\n')
    print(f"{TARGET}: {len(models):,} models")


def prices_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The entry's provider, its prices, and those above a number of input tokens; None where it is not priced by tokens."""
    if not PROVIDERS.fullmatch(entry.get("litellm_provider", "")) or entry.get("mode") not in MODES:
        return None
    if ELSEWHERE & entry.keys() or not entry.get("input_cost_per_token"):
        return None
    found: dict[str, Any] = {"provider": entry["litellm_provider"]}
    for name, price in entry.items():
        above = ABOVE.fullmatch(name)
        kind = KINDS.get(above["kind"] if above else name)
        if kind and price is not None:
            place = found.setdefault(f"above{int(above['thousands']) * 1000}", {}) if above else found
            place[kind] = per_million(price)
    return found


def per_million(price: Decimal | float) -> str:
    text = f"{Decimal(str(price)) * 1_000_000:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if len(sys.argv) != 2:  # noqa: PLR2004  # The program and one argument.
    sys.exit(__doc__)
main(Path(sys.argv[1]))

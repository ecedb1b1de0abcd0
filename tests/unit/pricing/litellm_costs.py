"""What litellm's price map says of a model, and what its arithmetic makes of that. The map is `litellm_prices.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from runtally.pricing.cost import MILLION

PRICES = Path(__file__).with_name("litellm_prices.json")


@dataclass(frozen=True)
class Rates:
    """US dollars per million tokens; None where the map has no price of its own for a kind."""

    input: Decimal
    output: Decimal | None
    cache_read: Decimal | None
    cache_write: Decimal | None
    reasoning: Decimal | None
    audio_input: Decimal | None
    audio_output: Decimal | None

    @classmethod
    def of(cls, prices: Mapping[str, str]) -> Self:
        found = {name: Decimal(text) for name, text in prices.items() if isinstance(text, str) and name != "provider"}
        kinds = ("output", "cacheRead", "cacheWrite", "reasoning", "audioInput", "audioOutput")
        return cls(found["input"], *(found.get(name) for name in kinds))

    def cost(self, mix: Mapping[str, int]) -> Decimal:
        """As litellm adds it up: what has no price of its own costs what the rest of input or output does."""
        cached, written, reasoning, heard, spoken = (
            mix.get(name, 0) for name in ("cached", "written", "reasoning", "heard", "spoken")
        )
        output = self.output or Decimal(0)
        return (
            (mix["input"] - cached - written - heard) * self.input
            + cached * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + heard * (self.input if self.audio_input is None else self.audio_input)
            + (mix["output"] - reasoning - spoken) * output
            + spoken * (output if self.audio_output is None else self.audio_output)
            + reasoning * (output if self.reasoning is None else self.reasoning)
        ) / MILLION


@dataclass(frozen=True)
class Model:
    """A model of the map: its rates, and those above so many input tokens."""

    provider: str
    name: str
    rates: Rates
    tiers: Mapping[int, Rates]

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Self:
        # Google's are parted by who made the model.
        provider = "vertex_ai" if entry["provider"].startswith("vertex_ai") else entry["provider"]
        base = {kind: text for kind, text in entry.items() if not kind.startswith("above")}
        tiers = {
            int(kind.removeprefix("above")): Rates.of(base | above)
            for kind, above in entry.items()
            if kind.startswith("above")
        }
        return cls(provider, name, Rates.of(base), dict(sorted(tiers.items())))

    def rates_for(self, input_tokens: int) -> Rates:
        above = [rates for tokens, rates in self.tiers.items() if input_tokens > tokens]
        return above[-1] if above else self.rates


def models() -> list[Model]:
    found = json.loads(PRICES.read_text())["models"]
    return [Model.of(name, entry) for name, entry in found.items()]

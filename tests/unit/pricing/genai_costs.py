"""`python -m tests.unit.pricing.genai_costs AT` prints what genai-prices computes for each of its models.

A process of its own, because the package takes 100 MB and most of a second. Mixes of tokens come in as a JSON array; out go
JSON arrays of provider, model, number of the mix, and the cost, or null where it finds none.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

from genai_prices import Usage, calc_price
from genai_prices.data import providers


def cost_of(provider: str, model: str, mix: Mapping[str, int], at: datetime) -> str | None:
    try:
        found = calc_price(Usage(**mix), model, provider_id=provider, genai_request_timestamp=at)
    except LookupError:
        return None
    return str(found.total_price)


def main() -> None:
    mixes: Sequence[Mapping[str, int]] = json.load(sys.stdin)
    at = datetime.fromisoformat(sys.argv[1])
    for provider in providers:
        for model in provider.models:
            for number, mix in enumerate(mixes):
                line = [provider.id, model.id, number, cost_of(provider.id, model.id, mix, at)]
                sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

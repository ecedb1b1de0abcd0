"""The sums of a file's tokens and costs, to be put beside what was stored of them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

FIGURES: Final = (
    "inputTokens",
    "outputTokens",
    "cachedInputTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "costUSD",
)


class Figures:
    """Sums by the names of a run's fields. `costUSD` is what the file says, and None while it has said nothing."""

    def __init__(self) -> None:
        self.sums: dict[str, int | Decimal | None] = dict.fromkeys(FIGURES, 0) | {"costUSD": None}

    def add(self, value_of: Callable[[str], object], sign: int = 1) -> None:
        """Add the values that a row or a run has under these names, or take them off with the sign -1."""
        for name in FIGURES:
            value = value_of(name)
            if isinstance(value, int | Decimal):
                self.sums[name] = (self.sums[name] or 0) + sign * value

    def __str__(self) -> str:
        return ", ".join(
            f"{value:,} {name}" if name != "costUSD" else f"${value:,}" for name, value in self.sums.items() if value
        )

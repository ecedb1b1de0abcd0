"""How large the storm is."""

import os
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """RUNS, FAULTS, SEED and SHORT of the environment."""

    runs: int
    faults: int
    seed: int

    @classmethod
    def of_environment(cls) -> "Options":
        """Raises `SystemExit` that says what a variable may be."""
        is_short = os.environ.get("SHORT") == "1"
        return cls(
            runs=number("RUNS", 1_000 if is_short else 100_000),
            faults=number("FAULTS", 15 if is_short else 200),
            seed=seed_of_environment(),
        )


def seed_of_environment() -> int:
    return number("SEED", random.SystemRandom().randrange(1_000_000))


def number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip() or str(default)
    if not text.isdecimal() or (int(text) == 0 and name != "SEED"):
        raise SystemExit(f"{name} is a positive number, such as {name}={default}.")
    return int(text)

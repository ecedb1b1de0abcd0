"""What calls cost by the prices that are in the client's build, or in a file of `runtally prices export`.

The build's prices are those of the server's catalogue on the day of the build. A discount or a price of one's own is
known to the server alone.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from runtally_client.agent_files.reading import Run

BUNDLED = Path(__file__).with_name("prices.json.gz")
_MILLION, _THOUSAND = Decimal(1_000_000), Decimal(1_000)
_COLUMNS = {
    "input": "input_per_million",
    "output": "output_per_million",
    "cacheRead": "cache_read_per_million",
    "cacheWrite": "cache_write_per_million",
    "reasoning": "reasoning_per_million",
}
# Each part with the field or unit that counts it, and the whole that it is taken from; a part of a part comes after it.
_PARTS = (
    ("cacheRead", "cachedInputTokens", "input"),
    ("cacheWrite", "cacheWriteTokens", "input"),
    ("reasoning", "reasoningTokens", "output"),
    ("cacheWrite1h", "cacheWrite1h", "cacheWrite"),
)
# One is a thousand of them.
_REQUESTS = ("webSearch", "fileSearch", "grounding")


class Rates(dict[str, Decimal]):
    """What each token and request costs: equal to itself alone, so that calls can be grouped by it."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__
    __ne__ = object.__ne__


class Price(NamedTuple):
    """An entry: its names, when it is in force, and its rates in US dollars."""

    provider: str
    names: frozenset[str]
    pattern: str | None
    above: int
    start: str
    end: str
    rates: Rates
    variants: str


class Prices:
    """The prices of models. Raises ValueError if a file holds none."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._by_provider: dict[str, list[Price]] = {}
        for row in rows:
            self._by_provider.setdefault(str(row["provider"]).lower(), []).append(_price(row))
        if not self._by_provider:
            raise ValueError("no prices")
        self._candidates = lru_cache(4096)(self._find)

    def cost(self, run: Run) -> Decimal | None:
        """Return what the run cost in US dollars; None where its model has no price."""
        rates = self.rates(run)
        return None if rates is None else cost_of(run, rates)

    def rates(self, run: Run) -> Rates | None:
        """Return the rates for a run, one object for all runs of one price; None where its model has no price."""
        given, at = run.get("inputTokens", 0), run["timestamp"]
        for price in self._candidates(run["provider"], run["model"].lower()):
            if price.start <= at and (not price.end or at < price.end) and given > price.above - (price.above == 0):
                return _varied(price, run.get("serviceTier"), run.get("region"))
        return None

    def _find(self, provider: str, model: str) -> tuple[Price, ...]:
        """Return the entries for a model, exact names before patterns, and of each the highest tier first."""
        known = self._by_provider.get(provider, [])
        named = [price for price in known if model in price.names]
        found = named or [price for price in known if price.pattern and re.fullmatch(price.pattern, model)]
        return tuple(sorted(found, key=lambda price: (-price.above, price.start), reverse=False))


def bundled() -> Prices | None:
    """Return the prices of the build; None in a checkout, which has none."""
    if not BUNDLED.exists():
        return None
    return Prices(json.loads(gzip.decompress(BUNDLED.read_bytes())))


def of_file(path: Path) -> Prices:
    """Read the file that `runtally prices export` writes. Raises ValueError and OSError."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    try:
        return Prices(
            {
                **row,
                "aliases": re.split(r"[,\s]+", row.get("aliases") or ""),
                "above_input_tokens": row.get("above_input_tokens") or 0,
            }
            for row in rows
        )
    except (KeyError, InvalidOperation) as error:
        raise ValueError("no prices: it lacks columns, or holds what is no amount") from error


def _price(row: dict[str, Any]) -> Price:
    rates = Rates({name: Decimal(row[column]) for name, column in _COLUMNS.items() if row.get(column)})
    rates.update(_rates(row.get("unit_rates") or ""))
    if row.get("per_thousand_requests"):
        rates["request"] = Decimal(row["per_thousand_requests"])
    names = {row["model"], *(row.get("aliases") or ())}
    return Price(
        str(row["provider"]).lower(),
        frozenset(name.lower() for name in names if name),
        row.get("pattern") or None,
        int(row.get("above_input_tokens") or 0),
        row.get("effective_from") or "",
        row.get("effective_to") or "",
        rates,
        row.get("variants") or "",
    )


def _rates(text: str) -> dict[str, Decimal]:
    """Read `cacheWrite1h 10, webSearch 10`."""
    pairs = (part.split() for part in text.split(","))
    return {pair[0]: Decimal(pair[1]) for pair in pairs if len(pair) == 2}  # A name and an amount.


@lru_cache(4096)
def _lines(variants: str) -> tuple[tuple[str, str, str], ...]:
    """Split variants such as `tier batch: input 2.5` or `region us: x 1.1` into the condition, its values and what it does."""
    found = []
    for line in re.split(r"\n", variants):
        match = re.fullmatch(r"(tier|region) ([^:;]+): +(.+?) *(?:#.*)?", line.strip())
        if match:
            found.append((match.group(1), match.group(2), match.group(3)))
    return tuple(found)


@lru_cache(4096)
def _varied(price: Price, tier: str | None, region: str | None) -> Rates:
    rates = price.rates
    for kind, values, what in _lines(price.variants):
        if (tier if kind == "tier" else region) in values.split():
            if what.startswith("x "):
                rates = Rates(
                    (name, rate if name in _REQUESTS else rate * Decimal(what[2:])) for name, rate in rates.items()
                )
            else:
                rates = Rates({**rates, **_rates(what)})
    return rates


def cost_of(run: Run, rates: Rates, calls: int = 1) -> Decimal:
    """Charge each part of a run, or of the sum of so many, by its rate where it has one, otherwise as the whole that it is in."""
    counts = {"input": run.get("inputTokens", 0), "output": run.get("outputTokens", 0)}
    units = run.get("units") or {}
    for name, field, _ in _PARTS:
        counts[name] = units.get(field, 0) or run.get(field, 0)
    for name, _, whole in _PARTS:
        if name in rates:
            counts[whole if whole in rates else "input"] -= counts[name]
        else:
            counts[name] = 0
    tokens = sum(max(counts[name], 0) * rates.get(name, Decimal(0)) for name in counts)
    requests = sum(units.get(name, 0) * rates.get(name, Decimal(0)) for name in _REQUESTS)
    return Decimal(tokens) / _MILLION + Decimal(requests + calls * rates.get("request", Decimal(0))) / _THOUSAND

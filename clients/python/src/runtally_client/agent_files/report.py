"""Sums of calls by day, session, model, repository or agent, as a table or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from runtally_client.agent_files.prices import Prices, Rates, cost_of
from runtally_client.agent_files.reading import Run

BY: dict[str, Callable[[Run], str]] = {
    "day": lambda run: str(run["timestamp"])[:10],
    "month": lambda run: str(run["timestamp"])[:7],
    "session": lambda run: str(run.get("sessionId", "-")),
    "model": lambda run: str(run["model"]),
    "repo": lambda run: str(run["metadata"].get("repo", "-")),
    "agent": lambda run: str(run["metadata"]["agent"]),
}
"""What calls can be summed by; days and months are UTC's."""
_COUNTS = {
    "input": "inputTokens",
    "cacheRead": "cachedInputTokens",
    "cacheWrite": "cacheWriteTokens",
    "output": "outputTokens",
    "reasoning": "reasoningTokens",
}
_Key = tuple[str, str, "Rates | None"]
_OVER_TIME = ("day", "month")


class Sums:
    """The sums of some calls. `cost` is that of those with a price, whose number is `calls` less `unpriced`."""

    def __init__(self) -> None:
        self.calls = self.failed = self.unpriced = 0
        self.cost = Decimal(0)
        self.counts = dict.fromkeys(_COUNTS, 0)

    def add(self, run: Run, calls: int, rates: Rates | None) -> None:
        """Add so many calls, of which the run has the sums."""
        self.calls += calls
        for name, field in _COUNTS.items():
            self.counts[name] += run[field]
        if run["status"] != "success":
            self.failed += calls
        elif rates is None:
            self.unpriced += calls
        else:
            self.cost += cost_of(run, rates, calls)

    def document(self) -> dict[str, Any]:
        cost = None if self.unpriced == self.calls else float(round(self.cost, 9))
        return {"calls": self.calls, "failed": self.failed, **self.counts, "costUSD": cost, "unpriced": self.unpriced}


def summed(runs: Iterable[Run], by: str, prices: Prices | None) -> tuple[dict[str, Sums], Sums]:
    """Sum calls by a key; times in their order, all else the dearest first. The second value is the sum of all."""
    groups: dict[str, Sums] = {}
    total = Sums()
    for (key, status, rates), (calls, counts, units) in _alike(runs, BY[by], prices).items():
        run = {"status": status, **dict(zip(_COUNTS.values(), counts)), "units": units}
        for sums in (groups.setdefault(key, Sums()), total):
            sums.add(run, calls, rates)
    order: Callable[[Any], Any] = (
        (lambda item: item[0]) if by in _OVER_TIME else (lambda item: (-item[1].cost, -item[1].calls, item[0]))
    )
    return dict(sorted(groups.items(), key=order)), total


def _alike(runs: Iterable[Run], key_of: Callable[[Run], str], prices: Prices | None) -> dict[_Key, list[Any]]:
    """Sum calls of one key and one price, which are multiplied by it together: their number, counts and units."""
    found: dict[_Key, list[Any]] = {}
    for run in runs:
        key = key_of(run), run["status"], prices.rates(run) if prices else None
        sums = found.get(key)
        if sums is None:
            sums = found[key] = [0, [0] * len(_COUNTS), Counter()]
        sums[0] += 1
        sums[1] = [sum_ + run.get(field, 0) for sum_, field in zip(sums[1], _COUNTS.values())]
        if "units" in run:
            sums[2].update(run["units"])
    return found


def as_json(groups: dict[str, Sums], total: Sums, by: str) -> str:
    rows = [{by: key, **sums.document()} for key, sums in groups.items()]
    return json.dumps({"by": by, "groups": rows, "total": total.document()}, ensure_ascii=False)


def as_table(groups: dict[str, Sums], total: Sums, by: str) -> str:
    """Return the sums in columns as wide as they have to be; a cost that lacks calls without a price is marked."""
    heads = [by, "calls", "failed", "input", "cached", "written", "output", "cost"]
    rows = [heads, *(_cells(key, sums) for key, sums in groups.items()), _cells("total", total)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]
    return "\n".join([lines[0], *lines[1:-1], "-" * len(lines[-1]), lines[-1]])


def _cells(key: str, sums: Sums) -> list[str]:
    counts = (sums.counts[name] for name in ("input", "cacheRead", "cacheWrite", "output"))
    known = "-" if sums.calls == sums.unpriced + sums.failed and sums.unpriced else f"${sums.cost:,.4f}"
    mark = "+" if sums.unpriced and known != "-" else ""
    return [key[:40], f"{sums.calls:,}", f"{sums.failed:,}", *(f"{count:,}" for count in counts), known + mark]

"""The answers that the clients got, and how they compare with what is stored."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

SHOWN = 5

Key = tuple[str, str]
"""Project and runId."""
Content = tuple[Any, ...]

FIELDS = ("provider", "model", "inputTokens", "outputTokens", "latencyMs", "status")

Sums = dict[str, Counter[str]]
"""Of each project."""


def content_of(run: Mapping[str, Any]) -> Content:
    """What of a run is compared: all that its sums are made of."""
    return *(run[name] for name in FIELDS), datetime.fromisoformat(run["timestamp"])


@dataclass(slots=True)
class Ledger:
    """Each run with the answer that was final."""

    acknowledged: dict[Key, Content] = field(default_factory=dict)
    refused: set[Key] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    """Answers that the contract does not allow."""

    def acknowledge(self, project_id: str, runs: Iterable[Mapping[str, Any]]) -> None:
        self.acknowledged |= {(project_id, run["runId"]): content_of(run) for run in runs}

    def refuse(self, project_id: str, runs: Iterable[Mapping[str, Any]]) -> None:
        self.refused |= {(project_id, run["runId"]) for run in runs}

    def sums(self) -> Sums:
        """What the acknowledged runs add up to."""
        found: Sums = {}
        for (project_id, _), (_, _, sent, received, *_) in self.acknowledged.items():
            found.setdefault(project_id, Counter()).update(runs=1, input_tokens=sent, output_tokens=received)
        return found

    def drop(self, project_id: str, before: datetime) -> int:
        """The project keeps no runs of before; how many that were. From now on they must not be there."""
        gone = [key for key, (*_, at) in self.acknowledged.items() if key[0] == project_id and at < before]
        for key in gone:
            del self.acknowledged[key]
        return len(gone)

    def differences(self, stored: Iterable[tuple[Key, Content]]) -> list[str]:
        """What is wrong with the stored runs, each a sentence; none if every promise was kept."""
        rows = list(stored)
        there = dict(rows)
        found = {
            "acknowledged and not stored": self.acknowledged.keys() - there.keys(),
            "refused and stored": self.refused & there.keys(),
            "stored and never acknowledged": there.keys() - self.acknowledged.keys() - self.refused,
            "stored with other content": {
                key for key, content in self.acknowledged.items() if there.get(key, content) != content
            },
        }
        lines = [
            f"{len(keys)} runs were {what}: {', '.join('/'.join(key) for key in sorted(keys)[:SHOWN])}"
            for what, keys in found.items()
            if keys
        ]
        if len(rows) > len(there):
            lines.append(f"{len(rows) - len(there)} runs are stored twice")
        return [*self.broken, *lines]

"""Runs of experiments, as they are stored."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from runtally.ids import uuid7
from runtally.models.run import Status, StoredRun

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def run(project_id: str, experiment_id: str | None, **columns: Any) -> StoredRun:  # noqa: ANN401  # Any column.
    values: dict[str, Any] = {
        "id": str(uuid7()),
        "occurred_at": NOW,
        "provider": "acme",
        "model": "acme-large",
        "status": Status.SUCCESS,
        "cost_usd": Decimal("0.01"),
        "latency_ms": 100,
        "created_at": NOW,
        "version": 1,
    }
    return StoredRun(project_id=project_id, experiment_id=experiment_id, **(values | columns))

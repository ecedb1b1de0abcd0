"""A trace's steps, and where they lie in time."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from runtally.models.run import Status, StoredRun
from runtally.runs.session import trace_of

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _run(after_ms: int, latency_ms: int | None, **fields: Any) -> StoredRun:  # noqa: ANN401  # Any field of a run.
    values: dict[str, Any] = {
        "project_id": "p",
        "id": f"run-{after_ms}",
        "occurred_at": START + timedelta(milliseconds=after_ms),
        "provider": "acme",
        "model": "acme-large",
        "status": Status.SUCCESS,
        "latency_ms": latency_ms,
        "created_at": START,
        "version": 1,
    }
    return StoredRun(**(values | fields))


def test_steps_are_in_order_and_their_places_are_shares_of_the_whole() -> None:
    trace = trace_of(
        "t",
        [
            _run(500, 500, cost_usd=Decimal("0.02"), status=Status.ERROR),
            _run(0, 400, cost_usd=Decimal("0.01"), input_tokens=10, output_tokens=5),
            _run(250, None),
        ],
        is_whole=True,
    )

    assert [(step.run.id, step.offset, step.length, step.starts_after_ms) for step in trace.steps] == [
        ("run-0", 0, 0.4, 0),
        ("run-250", 0.25, 0, 250),
        ("run-500", 0.5, 0.5, 500),
    ]
    assert (trace.length_ms, trace.cost_usd, trace.unpriced, trace.failed, trace.tokens) == (
        1000,
        Decimal("0.03"),
        1,
        1,
        15,
    )


def test_a_trace_of_moments_and_one_of_ages_can_be_drawn() -> None:
    moments = trace_of("t", [_run(0, None)], is_whole=True)
    ages = trace_of("t", [_run(0, 2**53 - 1), _run(5, 1)], is_whole=True)

    assert [(step.offset, step.length) for step in moments.steps] == [(0, 0)]
    assert all(0 <= step.offset <= 1 and 0 <= step.length <= 1 for step in ages.steps)

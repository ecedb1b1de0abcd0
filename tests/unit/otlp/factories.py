"""Calls with sane defaults."""

from typing import Any

from runtally.models.run import Status
from runtally.otlp.calls import Call
from runtally.otlp.values import Resource, Value

RESOURCE = Resource({}, b"resource")
MS = 1_000_000
NOON = 1_790_000_000_000 * MS


def make_call(  # noqa: PLR0913  # What tests are about.
    number: int = 1,
    *,
    scope: str = "a",
    start_ms: float = 0,
    ms: float = 1000,
    parent: int = 0,
    project_id: str = "p",
    resource: Resource = RESOURCE,
    status: Status = Status.SUCCESS,
    free: dict[str, Value] | None = None,
    **facts: Any,  # noqa: ANN401  # What is known of the call.
) -> Call:
    start = NOON + round(start_ms * MS)
    return Call(
        key=key_of(number),
        run_id=f"run-{number}",
        trace_id="t",
        parent_id=key_of(parent)[16:] if parent else b"",
        project_id=project_id,
        resource=resource,
        scope=scope,
        start=start,
        end=start + round(ms * MS),
        latency_ms=round(ms),
        status=status,
        error_code=None,
        facts={"model": "m", "input": 100, "output": 50, **facts},
        free=free or {},
    )


def key_of(number: int, trace: int = 1) -> bytes:
    return trace.to_bytes(16, "big") + number.to_bytes(8, "big")

"""The storm as its seed makes it: what strikes when, and what the clients send. Nothing here depends on time or machine."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

PROJECTS = ("storm-a", "storm-b", "storm-c")
# Its programs give each call names of its own, as those do that write the id of a request into the model.
CROWD = "storm-names"
MODELS = (("openai", "gpt-4o-mini"), ("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"), ("nobody", "unpriced"))
LARGEST_BATCH = 120
DAYS = 20


class Fault(StrEnum):
    """What can happen."""

    WORKER = "a worker is killed"
    SERVICE = "the service is killed"
    POSTGRES = "Postgres is killed"
    BACKEND = "a process of Postgres is killed"
    HANG = "Postgres hangs for a while"
    RESTART = "all workers are replaced, one after the other"
    MIGRATE = "the migrations run"
    CUT_REQUEST = "a request is cut half-way"
    LOSE_ANSWER = "an answer is lost"
    CUT_ANSWER = "an answer is cut half-way"
    DELAY = "a connection is slow"
    STALL = "a connection stalls, and then breaks"


# Faults are dealt out in turns of this, each turn shuffled: a short storm has every kind as well.
TURN = (
    *(Fault.WORKER,) * 2,
    Fault.SERVICE,
    Fault.POSTGRES,
    Fault.BACKEND,
    Fault.HANG,
    Fault.RESTART,
    Fault.MIGRATE,
    *(Fault.CUT_REQUEST,) * 2,
    *(Fault.LOSE_ANSWER,) * 2,
    Fault.CUT_ANSWER,
    Fault.DELAY,
    Fault.STALL,
)


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault. Moments are counted in runs, not seconds, so that a slow machine has the same storm."""

    after_runs: int
    fault: Fault
    fraction: float
    """Which worker, how much of a request, how long: from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Post:
    """One request of a client, sent until it is answered for good."""

    project_id: str
    runs: tuple[dict[str, Any], ...]
    is_single: bool
    is_packed: bool
    is_bad: bool
    """One of its runs breaks a constraint, so that all of it must be refused."""
    is_repeated: bool
    """Sent once more after it was acknowledged."""


def strikes(seed: int, faults: int, runs: int) -> list[Strike]:
    """In the order of their moments, all of them within these runs."""
    chance = random.Random(f"strikes {seed}")  # noqa: S311  # It has to be repeatable.
    kinds: list[Fault] = []
    while len(kinds) < faults:
        kinds += chance.sample(TURN, len(TURN))
    moments = sorted(chance.randrange(runs) for _ in range(faults))
    return [Strike(moment, kind, chance.random()) for moment, kind in zip(moments, kinds, strict=False)]


def posts(seed: int, now: datetime, days: int = DAYS, name: str = "run") -> Iterator[Post]:
    """Requests without end, their runs spread over the last days and named after `name`."""
    chance = random.Random(f"posts {seed}")  # noqa: S311
    made = 0
    while True:
        is_single = chance.random() < 0.3
        count = 1 if is_single else chance.randint(2, LARGEST_BATCH)
        sent = [
            _run(chance, f"{name}-{made + number}", now - timedelta(seconds=chance.randrange(days * 86_400)))
            for number in range(count)
        ]
        project_id = chance.choice((*PROJECTS, CROWD))
        if project_id == CROWD:
            sent = [run | _names(run["runId"]) for run in sent]
        is_bad = chance.random() < 0.1
        if is_bad:
            chance.choice(sent)["inputTokens"] = -1
        yield Post(
            project_id,
            tuple(sent),
            is_single=is_single,
            is_packed=chance.random() < 0.2,
            is_bad=is_bad,
            is_repeated=chance.random() < 0.1,
        )
        made += count


def _names(run_id: str) -> dict[str, Any]:
    of_run = {
        name: f"{name}-{run_id}" for name in ("provider", "model", "experimentId", "userId", "sessionId", "traceId")
    }
    return of_run | {"tags": [run_id], "metadata": {"feature": run_id}}


def _run(chance: random.Random, run_id: str, at: datetime) -> dict[str, Any]:
    provider, model = chance.choice(MODELS)
    return {
        "runId": run_id,
        "provider": provider,
        "model": model,
        "inputTokens": chance.randrange(5_000),
        "outputTokens": chance.randrange(2_000),
        "latencyMs": chance.randrange(20_000),
        "status": chance.choice(("success", "success", "success", "error", "timeout")),
        "timestamp": at.isoformat(),
        "metadata": {"attempt": chance.randrange(9), "note": "x" * chance.randrange(200)},
    }

"""Runs of experiments."""

from tests.factories import make_run


def run_of(experiment_id: str, **fields: object) -> dict[str, object]:
    """A run whose cost is as it is said, because its provider's are trusted."""
    return make_run(**{"experimentId": experiment_id, "provider": "openrouter", "costUSD": 0.5} | fields)


def runs_of(experiment_id: str, count: int = 1, **fields: object) -> list[dict[str, object]]:
    return [run_of(experiment_id, **fields) for _ in range(count)]

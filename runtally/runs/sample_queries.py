"""A sample of runs: the newest that a filter keeps, with what their spread is taken from."""

from typing import NamedTuple

from runtally.db.database import Connection
from runtally.usage.conditions import Conditions
from runtally.usage.filter import RunFilter
from runtally.usage.groups.rows import MAX_RUNS_READ
from runtally.usage.window import TimeSpan

SAMPLED_RUNS = 2_000
"""Enough for a spread that is off by a few percent; each thousand takes 3 ms of a page."""
_SELECT_SAMPLE = """
SELECT cost_usd::float8,
       status = 'success',
       coalesce(input_tokens, 0),
       coalesce(output_tokens, 0),
       coalesce(cached_input_tokens, 0)
  FROM ({newest}) AS newest
 WHERE {keep}
 LIMIT {kept}
"""


class SampledRun(NamedTuple):
    """What a run adds to figures; tokens that are not known are none."""

    cost_usd: float | None
    is_success: bool
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int


async def select_sample(connection: Connection, run_filter: RunFilter, span: TimeSpan) -> list[SampledRun]:
    """Read the newest runs of a span that a filter keeps, up to `SAMPLED_RUNS`, among as many as may be read."""
    found = Conditions.of(run_filter).during(*span)
    walked, kept = found.value(MAX_RUNS_READ, "bigint"), found.value(SAMPLED_RUNS, "bigint")
    newest = f"SELECT * FROM runs WHERE {found.walk} ORDER BY occurred_at DESC, id DESC LIMIT {walked}"
    rows = await connection.fetch(
        _SELECT_SAMPLE.format(newest=newest, keep=found.keep, kept=kept),
        *found.values,
    )
    return [SampledRun(*row) for row in rows]

"""What the SQL of metrics has in common. A bucket is numbered from the window's start; nothing depends on a time zone.

Parameters of all that read a window: the scope, which is a project or everything; the stored buckets that cover it, as
arrays of grains, starts and ends; start and end of the rest, which is read from the runs; the window's start, and the
seconds of its buckets. An empty rest is not even looked for.
"""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

from runtally.metrics.values import Tally
from runtally.metrics.window import Cover, Window
from runtally.models.rollup import EVERYTHING, RollupScope
from runtally.rollups.tables import TOTALS

STORED = """unnest({parts}) AS parts (grain, since, until)
         JOIN {table}
           ON {table}.project_id = {project}
          AND {table}.grain = parts.grain
          AND {table}.bucket >= parts.since
          AND {table}.bucket < parts.until"""
# By way of the projects, because there is no index over the time alone.
REST = f"""projects
         JOIN runs ON runs.project_id = projects.id
   WHERE {{since}}::timestamptz < $6::timestamptz
     AND ($1 = '{EVERYTHING}' OR projects.id = $1)
     AND runs.occurred_at >= {{since}}
     AND runs.occurred_at < $6"""
NUMBER = "floor(date_part('epoch', {moment} - $7::timestamptz) / $8::int)::int"
# What a tally is made of.
TALLIED = TOTALS.sums
TALLIED_COLUMNS = ", ".join(TALLIED)
# What a tally is, in its order.
_TALLY = {
    "runs": "sum(runs)::bigint",
    "failed": "sum(errors + timeouts)::bigint",
    "unpriced": "sum(unpriced)::bigint",
    "cost_usd": "sum(cost_usd)",
    "tokens_in": "sum(input_tokens)",
    "tokens_out": "sum(output_tokens)",
    "timeouts": "sum(timeouts)::bigint",
    "estimated": "sum(estimated)::bigint",
    "error_cost_usd": "sum(error_cost_usd)",
    "timeout_cost_usd": "sum(timeout_cost_usd)",
}
TALLY = ",\n         ".join(f"{sql} AS {name}" for name, sql in _TALLY.items())
TALLY_NAMES = tuple(_TALLY)
# Of what has such columns.
SUM_OF_TALLIES = ", ".join(
    f"sum({name}){'::bigint' if sql.endswith('::bigint') else ''}" for name, sql in _TALLY.items()
)


def parts(first: int) -> str:
    """The three parameters of stored buckets, from this number on."""
    return f"${first}::smallint[], ${first + 1}::timestamptz[], ${first + 2}::timestamptz[]"


def arrays(cover: Cover) -> tuple[list[int], list[datetime], list[datetime], datetime]:
    """The parts as parameters, and where the rest begins."""
    stored, rest_since = cover
    return (
        [part.grain.minutes for part in stored],
        [part.since for part in stored],
        [part.until for part in stored],
        rest_since,
    )


def parameters(window: Window, project_id: str | None, cover: Cover) -> tuple[object, ...]:
    return (RollupScope(project_id).key, *arrays(cover), window.until, window.start, seconds(window))


def seconds(window: Window) -> int:
    return int(window.interval.total_seconds())


def starts(window: Window) -> Callable[[int], datetime]:
    """The start of a bucket by its number; thousands are asked for, so what they have in common is computed once."""
    start, interval = window.start, window.interval
    return lambda number: start + number * interval


def tally(  # noqa: PLR0913, PLR0917  # The columns of a row, thousands of times.
    runs: int,
    failed: int,
    unpriced: int,
    cost_usd: Decimal,
    tokens_in: Decimal,
    tokens_out: Decimal,
    timeouts: int,
    estimated: int,
    error_cost_usd: Decimal,
    timeout_cost_usd: Decimal,
    /,
) -> Tally:
    return Tally(
        runs,
        failed,
        unpriced,
        cost_usd,
        int(tokens_in),
        int(tokens_out),
        timeouts,
        estimated,
        error_cost_usd,
        timeout_cost_usd,
    )

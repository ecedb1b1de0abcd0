"""SQL that verifies the rollups: the first difference of each project from its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.usage.upkeep import differences, dimension_queries
from runtally.usage.upkeep.chunk_queries import SET_UP, ScanChunk

_FIRST = """
  SELECT DISTINCT ON (project_id)
         project_id, count(*) OVER (PARTITION BY project_id) AS differing, grain, bucket, {name} AS name,
         {runs}::bigint AS runs, {cost} AS cost_usd
    FROM difference
ORDER BY project_id, grain DESC, bucket{more}
"""
_FIRST_SLICE = _FIRST.format(name="provider || ' ' || model", runs="runs", cost="cost_usd", more=", provider, model")
_FIRST_TOTAL = _FIRST.format(name="'all models'", runs="runs", cost="cost_usd", more="")
_FIRST_BIN = _FIRST.format(name="'latencies'", runs="runs", cost="0::numeric", more=", latency")
_FIRST_PERCENTILE = _FIRST.format(name="'percentiles'", runs="0", cost="0::numeric", more="")

SELECT_SLICE_DIFFERENCES = differences.SLICES_DIFFER + _FIRST_SLICE
SELECT_SLICE_DIFFERENCES_OF_ALL = differences.SLICES_OF_ALL_DIFFER + _FIRST_SLICE
SELECT_TOTAL_DIFFERENCES = differences.TOTALS_DIFFER + _FIRST_TOTAL
SELECT_SKETCH_DIFFERENCES = differences.SKETCHES_DIFFER + _FIRST_BIN
SELECT_SKETCH_DIFFERENCES_OF_ALL = differences.SKETCHES_OF_ALL_DIFFER + _FIRST_BIN
SELECT_PERCENTILE_DIFFERENCES = differences.PERCENTILES_DIFFER + _FIRST_PERCENTILE


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the rollups of a project differ from its runs, and the difference: what the rollups lack is positive."""

    differing: int
    """Rows that differ in the same chunk of time."""
    grain: int
    bucket: datetime
    name: str
    """Provider and model; or latencies, if these differ."""
    runs: int
    cost_usd: object


@dataclass(frozen=True, slots=True)
class Kind:
    """The kinds of rollup tables, in the order in which they are compared."""

    of_projects: Sequence[str]
    of_all: Sequence[str]


SUMS = Kind(
    (SELECT_SLICE_DIFFERENCES, SELECT_TOTAL_DIFFERENCES), (SELECT_SLICE_DIFFERENCES_OF_ALL, SELECT_TOTAL_DIFFERENCES)
)
SKETCHES = Kind(
    (SELECT_SKETCH_DIFFERENCES, SELECT_PERCENTILE_DIFFERENCES),
    (SELECT_SKETCH_DIFFERENCES_OF_ALL, SELECT_PERCENTILE_DIFFERENCES),
)


async def select_differences(
    connection: Connection, kind: Kind, chunk: ScanChunk, now: datetime
) -> Mapping[str, Difference]:
    """Read the first difference of each scope that has one."""
    await connection.execute(SET_UP)
    found: dict[str, Difference] = {}
    for statement in kind.of_all if chunk.is_of_all else kind.of_projects:
        for key, *difference in await connection.fetch(statement, *chunk.values, now):
            found.setdefault(key, Difference(*difference))
    return found


async def select_dimension_differences(
    connection: Connection, chunk: ScanChunk, now: datetime
) -> Mapping[str, Difference]:
    """Read the first difference of each project in sums by dimension, for keys with complete sums."""
    found: dict[str, Difference] = {}
    for key, *difference in await dimension_queries.select_differences(connection, chunk, now):
        found.setdefault(key, Difference(*difference))
    return found

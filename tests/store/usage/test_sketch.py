"""Percentiles from what the database makes of latencies, compared with the exact ones."""

from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Connection, Database
from runtally.usage.sketch import BINNED, LATENCY, Sketch, merged, percentile
from tests.factories import examples
from tests.reference import nearest_rank

latencies = st.integers(0, 2**53 - 1) | st.integers(0, 300) | st.integers(300, 60_000)
STORED = f"""
  SELECT stored, count(*) AS runs
    FROM unnest($1::bigint[], $2::boolean[]) AS sent (latency_ms, is_binned)
         CROSS JOIN LATERAL (SELECT {LATENCY} AS latency) AS exact
         CROSS JOIN LATERAL (SELECT CASE WHEN is_binned THEN {BINNED} ELSE latency END AS stored) AS binned
GROUP BY 1
ORDER BY 1
"""
AGAIN = f"SELECT {BINNED} FROM unnest($1::int[]) AS stored (latency)"


async def stored(connection: Connection, values: list[tuple[int, bool]]) -> Sketch:
    rows = await connection.fetch(STORED, *map(list, zip(*values, strict=True)))
    return [row["stored"] for row in rows], [row["runs"] for row in rows]


@given(st.lists(st.tuples(latencies, st.booleans()), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
@examples(2)
async def test_a_percentile_is_within_one_percent_whatever_is_binned(
    database: Database, values: list[tuple[int, bool]], percent: int
) -> None:
    async with database.connection() as connection:
        sketch = await stored(connection, values)
        again = [row[0] for row in await connection.fetch(AGAIN, [*sketch[0]])]

    exact = nearest_rank(sorted(latency for latency, _ in values), percent)
    assert abs(percentile(sketch, percent) - exact) <= exact / 100
    assert len(set(again)) <= len(sketch[0])
    if all(is_binned for _, is_binned in values):
        assert again == sketch[0]


async def test_few_latencies_are_exact(connection: Connection) -> None:
    sketch = await stored(connection, [(latency, False) for latency in (0, 1, 799, 800, 801, 499_999_999)])

    assert [percentile(sketch, percent) for percent in (1, 33, 34, 50, 66, 99)] == [0, 1, 799, 799, 800, 499_999_999]


def test_merged_sketches_are_the_sketch_of_all() -> None:
    assert merged([([2, 9], [1, 4]), ([9, 11], [2, 3]), ([], [])]) == ([2, 9, 11], [1, 6, 3])

"""The rows that need many stored runs, size by size."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from benchmarks import store
from benchmarks.latency import Reader
from benchmarks.options import Options
from benchmarks.processes import runtally, service
from benchmarks.progress import Progress
from benchmarks.result import Row
from benchmarks.rows import pages, reading, tracking, volumes
from benchmarks.rows.volumes import Size
from benchmarks.store import Postgres
from benchmarks.volume import Volume

ROWS = frozenset({3, 4, 5, 6, 7, 11, 13, 16, 17, 20, 24})
AT_EACH_SIZE = frozenset({3, 4})
GOAL_RUNS = 10_000_000
"""The size that the goals of rows 4, 5, 7, 11, 13, 17 and 20 are about."""
INGEST_GOAL_RUNS = 20_000_000
"""The size that the goal of row 3 is about."""
PAGES_GOAL_RUNS = 1_000_000
"""The size that the goal of row 16 is about."""
PAGES = 16
LARGEST = 24
OF_LARGEST = frozenset({4, 7, 13, 17, 20})
"""The rows that are looked at again where the most runs are stored, as row 24."""
LARGEST_GOAL_RUNS = 100_000_000
"""The size that the goal of row 24 is about."""
ACCURACY = 6
"""The row whose goal is about any size."""


def measure(postgres: Postgres, options: Options, progress: Progress, rows: list[Row], sizes: list[Size]) -> None:
    """Adds to the rows, and to the sizes that the plot shows."""
    wanted = ROWS & set(options.rows)
    if not wanted:
        return
    at, pages_at, most = (_largest(options, goal) for goal in (GOAL_RUNS, PAGES_GOAL_RUNS, LARGEST_GOAL_RUNS))
    volume = Volume(postgres, options.sizes[0])
    for runs in _needed(options, wanted):
        progress.begin(f"making {runs:,} runs")
        volume.grow(runs, progress.part)
        progress.end()
        progress.begin(f"rows {', '.join(map(str, sorted(wanted)))} at {runs:,} runs")
        if runs == at and 11 in wanted:  # noqa: PLR2004  # Number of the row.
            # Before the loads, whose garbage is not the product's.
            rows.append(_judged(volumes.storage_row(volume), runs, GOAL_RUNS))
        # Before the loads as well, which are a million more, all of them of today.
        if runs == pages_at and PAGES in wanted:
            with reader(volume) as visitor:
                rows.append(_judged(pages.pages_row(visitor, volume, options), runs, PAGES_GOAL_RUNS))
        sizes.append(_at_size(postgres, volume, options, wanted))
        if runs == at:
            rows += [_judged(row, runs, GOAL_RUNS) for row in _reading_rows(volume, options, wanted)]
        if runs == most and LARGEST in wanted:
            again = (*volumes.metrics_rows(sizes[0], sizes[-1]), *_reading_rows(volume, options, OF_LARGEST))
            rows += [replace(_judged(row, runs, LARGEST_GOAL_RUNS), number=LARGEST) for row in again]
        progress.end()
    if 3 in wanted:  # noqa: PLR2004
        rows += [_judged(row, sizes[-1].runs, INGEST_GOAL_RUNS) for row in volumes.ingest_rows(sizes)]
    if 4 in wanted:  # noqa: PLR2004
        size = max((each for each in sizes if each.runs <= at), key=lambda each: each.runs)
        rows += [_judged(row, at, GOAL_RUNS) for row in volumes.metrics_rows(sizes[0], size)]


def _judged(row: Row, runs: int, goal_runs: int) -> Row:
    """Remove the verdict of a row if fewer runs were stored than its goal is about."""
    if runs >= goal_runs or row.number == ACCURACY:
        return row
    note = f"No verdict: the goal is about {goal_runs:,} stored runs. {row.note}".strip()
    return replace(row, reached=None, note=note)


def steps(options: Options) -> int:
    """Count the steps for the progress bar."""
    wanted = ROWS & set(options.rows)
    return 2 * len(_needed(options, wanted)) if wanted else 0


def _needed(options: Options, wanted: frozenset[int]) -> Sequence[int]:
    if wanted & AT_EACH_SIZE:
        return options.sizes
    goals = {{PAGES: PAGES_GOAL_RUNS, LARGEST: LARGEST_GOAL_RUNS}.get(row, GOAL_RUNS) for row in wanted}
    # The metrics of the largest size are compared with those of the smallest.
    smallest = {options.sizes[0]} if LARGEST in wanted else set()
    return sorted({_largest(options, goal) for goal in goals} | smallest)


def _largest(options: Options, goal_runs: int) -> int:
    """The size at which a goal about so many runs is looked at."""
    return max((runs for runs in options.sizes if runs <= goal_runs), default=options.sizes[0])


def _at_size(postgres: Postgres, volume: Volume, options: Options, wanted: frozenset[int]) -> Size:
    metrics, ingest = {}, {}
    if wanted & {4, LARGEST}:
        with reader(volume, scope="admin") as admin:
            metrics = volumes.metrics_times(admin, options)
    if 3 in wanted:  # noqa: PLR2004
        empty_url = postgres.create("ingest")
        with service(empty_url) as empty, service(volume.url) as full:
            ingest = volumes.ingest_rates(volume, full, empty_url, empty, options)
    return Size(volume.runs, store.runs_in(volume.url), ingest, metrics)


def _reading_rows(volume: Volume, options: Options, wanted: frozenset[int]) -> Iterator[Row]:
    if wanted & {5, 6}:
        with reader(volume, scope="admin") as admin:
            if 5 in wanted:  # noqa: PLR2004
                yield reading.aggregate_row(admin, volume, options)
            if 6 in wanted:  # noqa: PLR2004
                yield reading.accuracy_row(admin, volume)
    if 20 in wanted:  # noqa: PLR2004
        with reader(volume, scope="admin") as admin:
            yield tracking.two_dimensions_row(admin, volume, options)
    if wanted & {7, 13, 17}:
        with reader(volume) as visitor:
            if 17 in wanted:  # noqa: PLR2004
                yield tracking.grouped_row(visitor, volume, options)
            if 7 in wanted:  # noqa: PLR2004
                yield reading.page_row(visitor, volume, options)
            if 13 in wanted:  # noqa: PLR2004
                yield reading.explorer_row(visitor, volume, options)


@contextmanager
def reader(volume: Volume, scope: str | None = None) -> Iterator[Reader]:
    """Someone with a key of that scope; without one, everybody is admin."""
    headers = {}
    if scope:
        key = runtally("keys", "create", "--scope", scope, "--quiet", database_url=volume.url)
        headers["Authorization"] = f"Bearer {key}"
    with service(volume.url, SERVICE_DEV_MODE="0" if scope else "1") as server:
        yield Reader(server, headers)

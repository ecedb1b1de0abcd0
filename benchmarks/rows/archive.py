"""Row 22: bytes of a run that is kept 13 months, 35 days of them in Postgres, and questions over an archived month."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from benchmarks import store
from benchmarks.latency import WARM_UP, Reader, p95
from benchmarks.options import Options
from benchmarks.processes import runtally, service
from benchmarks.result import Figures, Row
from benchmarks.store import Postgres
from benchmarks.volume import LARGEST, fill

# Made for a thousand projects, of which the first ten have two thirds of them.
RUNS, SHORT_RUNS = 1_000_000, 50_000
LAST = "bench-0010"
KEPT_DAYS, ALL_DAYS = 35, 395
BYTES_GOAL, SECONDS_GOAL = 120, 1.0
QUESTIONS = {
    "runs by a key that is not tracked, by day": "/api/usage?groupBy=metadata.attempt&bucketWidth=1d",
    "by error and model": "/api/usage?groupBy=errorCode&groupBy=model",
    "page 1 of the explorer": "/runs?range=all",
    "the costliest": "/runs?range=all&sort=cost",
}
# No answer is one that was remembered.
_ROUND_REQUESTS, _SHORT_REQUESTS = 20, 5


def archived(postgres: Postgres, options: Options) -> list[Row]:
    """Row 22: a month of ten projects that ended long ago is archived, and then asked about."""
    runs = SHORT_RUNS if options.is_short else RUNS
    url = postgres.create("archive")
    runtally("migrate", database_url=url)
    end = _month_end()
    fill(url, runs, end)
    # A pass rests between files, and those of a thousand projects take it many minutes.
    store.execute(url, f"DELETE FROM runs WHERE project_id > '{LAST}'")
    runs = store.runs_in(url)
    runtally("rollups", "rebuild", database_url=url)
    store.execute(url, "VACUUM (FULL, ANALYZE)")
    in_postgres = store.stored_bytes(url) / runs
    with tempfile.TemporaryDirectory(prefix="runtally-bench-archive-") as folder:
        archive_url, kept_days = f"{folder}/files", str(KEPT_DAYS)
        runtally("retention", "drop", database_url=url, ARCHIVE_URL=archive_url, RETENTION_DAYS=kept_days)
        in_files = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) / runs
        store.execute(url, "VACUUM (FULL, ANALYZE)")
        left = store.runs_in(url)
        sums = store.stored_bytes(url) / runs
        with service(
            url, LOG_LEVEL="INFO", SERVICE_DEV_MODE="1", ARCHIVE_URL=archive_url, RETENTION_DAYS=kept_days
        ) as server:
            reader = Reader(server, {})
            times = {name: _times(reader, path, end, options) for name, path in QUESTIONS.items()}
    postgres.drop("archive")
    average = (KEPT_DAYS * in_postgres + (ALL_DAYS - KEPT_DAYS) * (in_files + sums)) / ALL_DAYS
    name, slowest = max(times.items(), key=lambda item: item[1].median)
    goal_ms = SECONDS_GOAL * 1_000
    return [
        Row(
            number=22,
            measure=f"bytes a run kept 13 months, 35 days of them in Postgres, at {runs:,} runs a month",
            service=f"{in_postgres:.0f} in Postgres, {in_files:.0f} in files, {sums:.0f} for sums",
            result=f"{average:.0f} bytes",
            goal=f"< {BYTES_GOAL}",
            reached=None if options.is_short else average < BYTES_GOAL,
            stored=runs,
            void=f"{left:,} runs were not archived" if left else None,
            figures={
                "bytes_in_postgres": Figures((in_postgres,)),
                "bytes_in_files": Figures((in_files,)),
                "bytes_of_sums": Figures((sums,)),
            },
        ),
        Row(
            number=22,
            measure="questions over an archived month of one project with a third of these runs, p95",
            service=f"slowest: {slowest:.0f} ms ({name})",
            result=f"{slowest.median:.0f} ms",
            goal=f"< {goal_ms:,.0f} ms",
            reached=None if options.is_short else slowest.median < goal_ms,
            stored=runs,
            figures=times,
        ),
    ]


def _month_end() -> datetime:
    """Return the end of a month whose runs are all archived."""
    return (datetime.now(UTC) - timedelta(days=KEPT_DAYS + 31)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _times(reader: Reader, path: str, end: datetime, options: Options) -> Figures:
    """The p95 of each round, of a span that is another each time."""
    requests = _SHORT_REQUESTS if options.is_short else _ROUND_REQUESTS
    number = 0

    def next_path() -> str:
        nonlocal number
        number += 1
        since, until = end - timedelta(days=30), end - timedelta(seconds=number)
        names = ("start", "end") if path.startswith("/api") else ("since", "until")
        project = "projectId" if path.startswith("/api") else "project"
        times = (f"{at:%Y-%m-%dT%H:%M:%S}" for at in (since, until))
        return f"{path}&{urlencode({project: LARGEST, **dict(zip(names, times, strict=True))})}"

    reader.times_of([next_path() for _ in range(WARM_UP)])
    return Figures.of(p95(reader.times_of([next_path() for _ in range(requests)])) for _ in range(options.rounds))

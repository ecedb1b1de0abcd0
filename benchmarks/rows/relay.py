"""Row 15: how fast runs get from the queue into the reporting table."""

import time

from benchmarks import processes, store
from benchmarks.options import Options
from benchmarks.processes import bare, service
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import bare_rate, post_batches
from benchmarks.store import Postgres

GOAL = 0.3


def relayed(postgres: Postgres, options: Options) -> list[Row]:
    """The service pushes runs to itself, each by a signed call, and nobody else asks it for anything meanwhile."""
    database = postgres.create("ingest")
    with service(database) as server:
        queued = post_batches(server, database, options.seconds)
    rates = []
    with service(database, RELAY="embedded"):
        for number in range(options.rounds + 1):
            left, began = store.queued_runs(database), time.perf_counter()
            time.sleep(options.seconds / 2)
            pushed, took = left - store.queued_runs(database), time.perf_counter() - began
            if number:
                rates.append(pushed / took)
        left = store.queued_runs(database)
    with bare() as quart:
        quarts = Figures.of([bare_rate(quart, options.seconds / 2) for _ in range(options.rounds + 1)][1:])
    per_second = Figures.of(rates)
    differing = processes.differences("reporting", "verify", "--ignore-waiting", database_url=database)
    ratio = per_second.over(quarts)
    return [
        Row(
            number=15,
            measure="relay: runs pushed into the reporting table",
            service=f"{per_second:,.0f} runs/s",
            yardstick=f"bare Quart {quarts:,.0f} req/s",
            result=f"{ratio:.2f} x",
            goal=f">= {GOAL} x",
            reached=ratio >= GOAL,
            stored=store.runs_in(database),
            void=queued.void or differing or (None if left else "nothing was left to push, so the rate is too low"),
            figures={"runs_per_second": per_second, "bare_quart_per_second": quarts},
        )
    ]

"""Row 15: how fast runs get from the queue into the reporting table, of the same database and of a receiver elsewhere."""

import time

from benchmarks import processes, store
from benchmarks.options import Options
from benchmarks.processes import Running, service
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import Ingested, first_void, post_batches
from benchmarks.store import Postgres

DIRECT_GOAL = 1.0
REMOTE_GOAL = 10_000
POLL_SECONDS = 0.1
DRAIN_SECONDS = 600.0


def relayed(postgres: Postgres, options: Options) -> list[Row]:
    """A queue of some seconds of ingest is drained by a relay that has the machine to itself."""
    database = postgres.create("ingest")
    with service(database, RELAY="off") as server:
        post_batches(server, database, options.warm_up_seconds)
        posted, direct = _rounds(server, database, options)
    differing = processes.differences("reporting", "verify", database_url=database)
    ingested = Figures.of(each.rate for each in posted)
    ratio = direct.over(ingested)
    same = Row(
        number=15,
        measure="relay: runs copied into the reporting table of the same database",
        service=f"{direct:,.0f} runs/s",
        yardstick=f"ingest in batches {ingested:,.0f} runs/s",
        result=f"{ratio:.2f} x",
        goal=f">= {DIRECT_GOAL} x",
        reached=ratio >= DIRECT_GOAL,
        stored=store.runs_in(database),
        void=first_void(posted) or differing or None,
        figures={"runs_per_second": direct, "ingested_per_second": ingested},
    )
    return [same, _remote(postgres, options)]


def _remote(postgres: Postgres, options: Options) -> Row:
    """Measure pushes to another service over another database, on the same machine."""
    database, elsewhere = postgres.create("ingest"), postgres.create("receiver")
    with service(elsewhere) as receiver, service(database, RELAY="off") as server:
        posted, pushed = _rounds(server, database, options, SERVICE_SYNC_URL=receiver.url)
    ingested = Figures.of(each.rate for each in posted)
    arrived = int(store.fetch_value(elsewhere, "SELECT count(*) FROM reporting_runs"))
    stored = store.runs_in(database)
    postgres.drop("receiver")
    return Row(
        number=15,
        measure="relay: runs pushed to a receiver elsewhere, which shares the machine",
        service=f"{pushed:,.0f} runs/s",
        yardstick=f"ingest in batches {ingested:,.0f} runs/s",
        result=f"{pushed.median:,.0f} runs/s",
        goal=f">= {REMOTE_GOAL:,} runs/s",
        reached=pushed.median >= REMOTE_GOAL,
        stored=stored,
        void=first_void(posted)
        or (None if arrived == stored else f"{stored:,} runs were stored and {arrived:,} arrived"),
        figures={"runs_per_second": pushed, "ingested_per_second": ingested},
    )


def _rounds(server: Running, database: str, options: Options, **relay: str) -> tuple[list[Ingested], Figures]:
    """Ingest with no relay, and then a relay with no ingest, in turn."""
    posted, rates = [], []
    for _ in range(options.rounds):
        posted.append(post_batches(server, database, options.seconds / 2))
        rates.append(_drained(database, **relay))
    return posted, Figures.of(rates)


def _drained(database: str, **relay: str) -> float:
    """Runs a second, from when the relay is at work until the queue is empty."""
    with processes.started("relay", database_url=database, **relay):
        whole = left = store.queued_runs(database)
        while left == whole:
            time.sleep(POLL_SECONDS)
            left = store.queued_runs(database)
        began, whole = time.perf_counter(), left
        while left:
            if time.perf_counter() - began > DRAIN_SECONDS:
                raise TimeoutError(f"{left:,} runs still wait for the relay")
            time.sleep(POLL_SECONDS)
            left = store.queued_runs(database)
        return whole / (time.perf_counter() - began)

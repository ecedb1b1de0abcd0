"""Rows 1, 2 and 12: what goes in."""

from dataclasses import dataclass
from itertools import count

from benchmarks import processes, store
from benchmarks.copying import copy_rate
from benchmarks.options import Options
from benchmarks.processes import KEY, Running, bare, service
from benchmarks.result import Figures, Row
from benchmarks.store import Postgres
from benchmarks.wrk import Load, load

CONNECTIONS = 64
BATCH, BATCH_CONNECTIONS = 100, 8
P99_MS = 60
MOST_LAG = 10
SINGLE_GOAL, BATCH_GOAL, BATCH_RATE = 1.0, 0.25, 40_000
STORM_PROJECTS, STORM_BATCHES = 6, 10

_number = count(1)


@dataclass(frozen=True, slots=True)
class Ingested:
    """One round of posting to the service, compared with what it stored."""

    load: Load
    runs: int
    """The number of runs in an acknowledged request."""
    stored: int
    in_flight: int
    """Requests that were unanswered when the load ended; these may be stored or not."""

    @property
    def rate(self) -> float:
        """Acknowledged runs a second."""
        return self.load.rate * self.runs

    @property
    def void(self) -> str | None:
        """Why the figure does not count: acknowledged must be stored, and nothing else."""
        acknowledged = self.load.acknowledged * self.runs
        if self.load.refused or self.load.broken:
            return f"{self.load.refused} requests were refused and {self.load.broken} broke"
        if not acknowledged <= self.stored <= acknowledged + self.in_flight * self.runs:
            return f"{acknowledged:,} runs were acknowledged and {self.stored:,} stored"
        return None


def post(server: Running, database: str, seconds: float, *, runs: int = 1, connections: int = CONNECTIONS) -> Ingested:
    """One round of single runs or batches into a project of its own."""
    project = f"load-{next(_number)}-{server.process.pid}"
    url = f"{server.url}/api/ingest"
    script = "single.lua" if runs == 1 else "batch.lua"
    sent = load(script, url, connections=connections, seconds=seconds, key=KEY, project=project, batch=runs)
    return Ingested(sent, runs, store.runs_of(database, project), connections)


def post_batches(server: Running, database: str, seconds: float) -> Ingested:
    return post(server, database, seconds, runs=BATCH, connections=BATCH_CONNECTIONS)


def single_runs(postgres: Postgres, options: Options) -> list[Row]:
    """Row 1."""
    database = postgres.create("ingest")
    rounds: list[Ingested] = []
    yardstick: list[float] = []
    lags: list[float] = []
    with bare() as quart, service(database) as server:
        post(server, database, options.warm_up_seconds)
        bare_rate(quart, options.warm_up_seconds)
        for _ in range(options.rounds):
            yardstick.append(bare_rate(quart, options.seconds))
            rounds.append(post(server, database, options.seconds))
            lags.append(store.relay_lag_seconds(database))
    rates, quarts = Figures.of(each.rate for each in rounds), Figures.of(yardstick)
    p99 = Figures.of(each.load.p99_ms for each in rounds)
    ratio = rates.over(quarts)
    return [
        Row(
            number=1,
            measure=f"single runs, {CONNECTIONS} connections, relay on",
            service=f"{rates:,.0f} req/s, p99 {p99.median:.0f} ms, the relay {max(lags):.1f} s behind",
            yardstick=f"bare Quart {quarts:,.0f} req/s",
            result=f"{ratio:.2f} x, p99 {p99.median:.0f} ms",
            goal=f">= {SINGLE_GOAL} x (1.5 x is the aim), p99 < {P99_MS} ms",
            reached=ratio >= SINGLE_GOAL and p99.median < P99_MS,
            stored=store.runs_in(database),
            void=first_void(rounds),
            figures={
                "runs_per_second": rates,
                "bare_quart_per_second": quarts,
                "p99_ms": p99,
                "lag_seconds": Figures.of(lags),
            },
        )
    ]


def batches(postgres: Postgres, options: Options) -> list[Row]:
    """Row 2."""
    database = postgres.create("ingest")
    rounds: list[Ingested] = []
    yardstick: list[float] = []
    lags: list[float] = []
    with service(database) as server:
        post_batches(server, database, options.warm_up_seconds)
        copy_rate(database, options.warm_up_seconds)
        for _ in range(options.rounds):
            yardstick.append(copy_rate(database, options.seconds))
            rounds.append(post_batches(server, database, options.seconds))
            lags.append(store.relay_lag_seconds(database))
    rates, copies = Figures.of(each.rate for each in rounds), Figures.of(yardstick)
    p99 = Figures.of(each.load.p99_ms for each in rounds)
    lag = Figures.of(lags)
    ratio = rates.over(copies)
    return [
        Row(
            number=2,
            measure=f"batches of {BATCH}, {BATCH_CONNECTIONS} connections, relay on",
            service=f"{rates:,.0f} runs/s, p99 {p99.median:.0f} ms, the relay {max(lags):.1f} s behind",
            yardstick=f"COPY with the same indexes {copies:,.0f} rows/s",
            result=f"{rates.median:,.0f} runs/s, {ratio:.2f} x, {max(lags):.1f} s behind",
            goal=f">= {BATCH_RATE:,} runs/s, >= {BATCH_GOAL} x, relay < {MOST_LAG} s behind",
            reached=rates.median >= BATCH_RATE and ratio >= BATCH_GOAL and max(lags) < MOST_LAG,
            stored=store.runs_in(database),
            void=first_void(rounds),
            figures={"runs_per_second": rates, "copied_rows_per_second": copies, "p99_ms": p99, "lag_seconds": lag},
        )
    ]


def several_workers(postgres: Postgres, options: Options) -> list[Row]:
    """Row 12: the same batches again and again over two workers."""
    database = postgres.create("ingest")
    project = f"storm-{next(_number)}"
    with service(database, workers=2) as server:
        sent = load(
            "storm.lua",
            f"{server.url}/api/ingest",
            connections=CONNECTIONS,
            seconds=options.seconds * 2,
            key=KEY,
            project=project,
            batch=BATCH,
            projects=STORM_PROJECTS,
            batches=STORM_BATCHES,
        )
        before = post(server, database, options.seconds)
    expected = STORM_PROJECTS * STORM_BATCHES * BATCH
    stored = store.runs_of(database, *(f"{project}-{number}" for number in range(STORM_PROJECTS)))
    differing = processes.differences("rollups", "verify", database_url=database)
    deadlocks = store.deadlocks(database)
    wrong = sent.refused + sent.broken
    return [
        Row(
            number=12,
            measure="2 workers, retry storm of batches, then single runs",
            service=f"{sent.rate * BATCH:,.0f} runs/s answered, {before.rate:,.0f} single runs/s",
            result=f"{stored - expected:+,} runs, {deadlocks} deadlocks, {wrong} failed, rollups {differing or 'exact'}",
            goal="no duplicate, no deadlock, exact rollups",
            reached=stored == expected and not deadlocks and not wrong and not differing,
            stored=store.runs_in(database),
            void=before.void,
            note=differing,
            figures={"answered_runs_per_second": Figures((sent.rate * BATCH,))},
        )
    ]


def first_void(rounds: list[Ingested]) -> str | None:
    return next((each.void for each in rounds if each.void), None)


def bare_rate(quart: Running, seconds: float) -> float:
    url = f"{quart.url}/ingest"
    return load("single.lua", url, connections=CONNECTIONS, seconds=seconds, key=KEY, project="bare").rate

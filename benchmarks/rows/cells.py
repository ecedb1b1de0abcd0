"""Row 21: two cells in two servers of Postgres, next to one database with the same projects: the processor time of a run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil

from benchmarks import processes, store
from benchmarks.options import Options
from benchmarks.processes import KEY, Running, service
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import BATCH, BATCH_CONNECTIONS
from benchmarks.store import Postgres
from benchmarks.wrk import load
from runtally.embedded.server import database_url
from runtally.settings import Settings

PROJECTS = 8
GOAL = 1.25

_number = count(1)


@dataclass(frozen=True, slots=True)
class Round:
    """A round of batches: the processor time of service and databases, and the runs that were stored."""

    seconds: float
    stored: int
    rate: float
    void: str | None

    @property
    def microseconds(self) -> float:
        """The processor time of a run."""
        return self.seconds / max(self.stored, 1) * 1_000_000


def two_cells(postgres: Postgres, options: Options) -> list[Row]:
    """Row 21: rounds with one database and with two cells, in turn."""
    one, main = postgres.create("ingest"), postgres.create("cells")
    with _second_server() as eu:
        urls = f"eu={eu}"
        processes.runtally("migrate", database_url=main)
        for arguments in (("add", "eu"), ("open", "eu")):
            processes.runtally("cells", *arguments, database_url=main, CELL_URLS=urls)
        plain, divided = list[Round](), list[Round]()
        with service(one) as of_one, service(main, CELL_URLS=urls) as of_two:
            for seconds in (options.warm_up_seconds, *(options.seconds for _ in range(options.rounds))):
                plain.append(_measure(of_one, [one], seconds))
                divided.append(_measure(of_two, [main, eu], seconds))
        differing = processes.differences("rollups", "verify", database_url=main)
        differing += processes.differences("--cell", "eu", "rollups", "verify", database_url=main, CELL_URLS=urls)
        stored = [store.runs_in(main), store.runs_in(eu)]
    # The first is the warm-up.
    of_plain, of_cells = (Figures.of(one.microseconds for one in rounds[1:]) for rounds in (plain, divided))
    rate, ratio = Figures.of(one.rate for one in divided[1:]), of_cells.over(of_plain)
    postgres.drop("cells")
    return [
        Row(
            number=21,
            measure=f"two cells in two servers, batches of {BATCH} into {PROJECTS} projects: processor time of a run",
            service=f"{of_cells:.0f} us, {rate:,.0f} runs/s, {stored[0]:,} and {stored[1]:,} runs stored",
            yardstick=f"one database {of_plain:.0f} us",
            result=f"{ratio:.2f} x",
            goal=f"<= {GOAL} x",
            reached=ratio <= GOAL,
            stored=sum(stored),
            void=next((one.void for one in (*plain, *divided) if one.void), None) or differing or None,
            figures={"microseconds_of_one": of_plain, "microseconds_of_two": of_cells, "runs_per_second": rate},
        )
    ]


@contextmanager
def _second_server() -> Iterator[str]:
    """Another Postgres, with a database for a cell."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-cell-") as folder:
        # Postgres does not run as root, so its user must be able to reach the folder.
        Path(folder).chmod(0o755)
        with database_url(Settings(database_url=None, data_dir=Path(folder))) as url:
            yield url


def _measure(server: Running, databases: list[str], seconds: float) -> Round:
    project = f"load-{next(_number)}"
    before = _processor_seconds(server, databases)
    sent = load(
        "batch.lua",
        f"{server.url}/api/ingest",
        connections=BATCH_CONNECTIONS,
        seconds=seconds,
        key=KEY,
        project=project,
        projects=PROJECTS,
        batch=BATCH,
    )
    used = _processor_seconds(server, databases) - before
    names = [f"{project}-{number}" for number in range(PROJECTS)]
    in_each = [store.runs_of(database, *names) for database in databases]
    acknowledged = sent.acknowledged * BATCH
    void = None
    if sent.refused or sent.broken or not acknowledged <= sum(in_each) <= acknowledged + BATCH_CONNECTIONS * BATCH:
        void = (
            f"{sent.refused} refused, {sent.broken} broke, {acknowledged:,} runs acknowledged, {sum(in_each):,} stored"
        )
    elif not all(in_each):
        void = "a cell has none of the runs"
    return Round(used, sum(in_each), sent.rate * BATCH, void)


def _processor_seconds(server: Running, databases: list[str]) -> float:
    programs = [server.process.pid, *(store.run(url, postmaster) for url in databases)]
    return sum(of_family(psutil.Process(pid)) for pid in programs)


async def postmaster(connection: store.Connection) -> int:
    """Return the process of a database's server, which must be on this machine."""
    return psutil.Process(connection.get_server_pid()).ppid()


def of_family(program: psutil.Process) -> float:
    """The processor time of a program and its children, those included that have ended."""
    total = 0.0
    for one in (program, *program.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total

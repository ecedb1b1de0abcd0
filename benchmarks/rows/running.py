"""Rows 9 and 10: memory and start."""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from benchmarks import store
from benchmarks.options import Options
from benchmarks.processes import RUNTALLY, Running, free_port, service, serving
from benchmarks.result import Figures, Row
from benchmarks.rows.ingest import first_void, post, post_batches
from benchmarks.store import Postgres

MEGABYTE = 1024 * 1024
MEMORY_MB = 150
GROWTH = 0.05
SAMPLE_SECONDS = 1.0
START_SECONDS = 2.0
STARTS = 3


def memory(postgres: Postgres, options: Options) -> list[Row]:
    """Row 9: half of the time single runs, then batches."""
    database = postgres.create("ingest")
    half = options.memory_seconds / 2
    with service(database) as server:
        found = {}
        rounds = []
        for name, load in (("single runs", post), ("batches", post_batches)):
            with _Sampling(server) as samples:
                rounds.append(load(server, database, half))
            found[name] = [size / MEGABYTE for size in samples.sizes]
    highest = max(max(sizes) for sizes in found.values())
    growth = max(_growth(sizes) for sizes in found.values())
    short = " (short: the goal asks for 10 min)" if options.is_short else ""
    return [
        Row(
            number=9,
            measure=f"memory of a worker with the relay over {options.memory_seconds / 60:g} min of load{short}",
            service=", ".join(f"{name} up to {max(sizes):.0f} MB" for name, sizes in found.items()),
            result=f"{highest:.0f} MB, {growth:+.1%}",
            goal=f"< {MEMORY_MB} MB, flat (< {GROWTH:.0%})",
            reached=None if options.is_short else highest < MEMORY_MB and growth < GROWTH,
            stored=store.runs_in(database),
            void=first_void(rounds),
            figures={name: Figures.of(sizes) for name, sizes in found.items()},
        )
    ]


def start(_postgres: Postgres, _options: Options) -> list[Row]:
    """Row 10: `runtally serve` with a Postgres of its own, whose data folder is there, until the overview is answered."""
    with data_folder() as folder:
        cold = start_seconds(folder)
        times = Figures.of(start_seconds(folder) for _ in range(STARTS))
    return [
        Row(
            number=10,
            measure="start to the first page, warm data folder, embedded Postgres",
            service=f"{times:.2f} s (cold {cold:.2f} s)",
            result=f"{times.median:.2f} s",
            goal=f"< {START_SECONDS:.0f} s",
            reached=times.median < START_SECONDS,
            figures={"warm_seconds": times, "cold_seconds": Figures((cold,))},
        )
    ]


@contextmanager
def data_folder() -> Iterator[Path]:
    """An empty data folder that the embedded Postgres, which does not run as root, can reach."""
    folder = Path(tempfile.mkdtemp(prefix="runtally-bench-start-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_seconds(folder: Path, **environment: str) -> float:
    """Start over this data folder, and return the seconds until the first page."""
    port = free_port()
    command = [str(RUNTALLY), "serve", "--provision", "--port", str(port)]
    started = time.perf_counter()
    with serving(command, port, "/", {"DATA_DIR": str(folder), "SERVICE_DEV_MODE": "1", **environment}):
        return time.perf_counter() - started


def _growth(sizes: list[float]) -> float:
    """Return the growth from the second fifth to the last one; the first is the warm-up."""
    fifth = max(len(sizes) // 5, 1)
    early, late = sizes[fifth : 2 * fifth] or sizes, sizes[-fifth:]
    return (sum(late) / len(late)) / (sum(early) / len(early)) - 1


class _Sampling:
    """Looks at a server's memory every second while it is entered."""

    def __init__(self, server: Running) -> None:
        self.sizes: list[int] = []
        self._server = server
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self.sizes.append(max(self._server.resident_bytes()))
            if self._done.wait(SAMPLE_SECONDS):
                return

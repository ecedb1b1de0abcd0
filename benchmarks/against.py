"""`make bench AGAINST=<commit>`: two builds in alternating rounds, and the ratios of their figures.

Both are served with the packages of this environment. Processor time is what a busy machine distorts least.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

import psutil

from benchmarks import store
from benchmarks.options import Options
from benchmarks.processes import ROOT, Running, service
from benchmarks.result import Figures
from benchmarks.rows.cells import of_family, postmaster
from benchmarks.rows.ingest import Ingested, post, post_batches
from benchmarks.rows.otlp import Kind, Sent, post_spans
from benchmarks.rows.running import MEGABYTE, data_folder, start_seconds
from benchmarks.store import Postgres

QUEUE_SECONDS = 60
SPANS = Kind("protobuf", packed=False, size=100, others=0.0)
SPAN_REQUESTS = 96
Measured: TypeAlias = Mapping[str, float]


class Build(NamedTuple):
    """A build that serves, and its database."""

    server: Running
    database: str


def compare(commit: str, postgres: Postgres, options: Options) -> None:
    """Print a line for each figure: the commit's, this checkout's, and this one's divided by the other."""
    print(f"{'row':<5}{'figure':<22} {commit[:24]:<30} {'this checkout':<30} ratio", flush=True)
    with _checkout(commit) as folder:
        for number in sorted({*LOADS, *STILL} & {*options.rows}):
            measure = _loaded if number in LOADS else _still
            found = measure(number, (folder, ROOT), postgres, options)
            for name in found[0][0]:
                theirs, ours = ([round_[name] for round_ in rounds] for rounds in found)
                # Of rounds one after the other, which were equally disturbed.
                ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
                shown = [f"{Figures.of(values):,.1f}".ljust(30) for values in (theirs, ours)]
                print(f"{number:<5}{name:<22}", *shown, f"{ratio:.2f}", flush=True)


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A worktree of the commit, for as long as it is measured. Raises `SystemExit` if there is no such commit."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-against-") as folder:
        added = _git("worktree", "add", "--detach", "--quiet", folder, commit)
        if added.returncode:
            raise SystemExit(f"AGAINST is a commit of this repository: {added.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            _git("worktree", "remove", "--force", folder)


def _git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607  # Ours.


def _still(number: int, paths: Sequence[Path], postgres: Postgres, options: Options) -> Sequence[Sequence[Measured]]:
    rounds = [[STILL[number](path, postgres) for path in paths] for _ in range(options.rounds)]
    return list(zip(*rounds, strict=True))


def _loaded(number: int, paths: Sequence[Path], postgres: Postgres, options: Options) -> Sequence[Sequence[Measured]]:
    found: list[list[Measured]] = [[], []]
    databases = [postgres.create(name) for name in ("against", "ingest")]
    with ExitStack() as stack:
        builds = [
            Build(stack.enter_context(service(url, PYTHONPATH=str(path))), url)
            for url, path in zip(databases, paths, strict=True)
        ]
        for seconds in (options.warm_up_seconds, *(options.seconds for _ in range(options.rounds))):
            for build, rounds in zip(builds, found, strict=True):
                rounds.append(_measured(build, partial(LOADS[number], build, seconds)))
    postgres.drop("against")
    # The first is the warm-up.
    return [rounds[1:] for rounds in found]


def _measured(build: Build, load: Callable[[], Measured]) -> Measured:
    """A round of load until its runs are also in the reporting table: processor time and log bytes of a run."""
    before = _used(build)
    figures = load()
    deadline = time.monotonic() + QUEUE_SECONDS
    while store.queued_runs(build.database) and time.monotonic() < deadline:
        time.sleep(0.2)
    of_service, of_database, logged, runs = (new - old for new, old in zip(_used(build), before, strict=True))
    return {
        **figures,
        "service us a run": of_service / runs * 1e6,
        "Postgres us a run": of_database / runs * 1e6,
        "together us a run": (of_service + of_database) / runs * 1e6,
        "WAL bytes a run": logged / runs,
        "service MB": max(build.server.resident_bytes()) / MEGABYTE,
    }


def _used(build: Build) -> tuple[float, float, float, int]:
    server, url = psutil.Process(build.server.process.pid), build.database
    logged = float(store.fetch_value(url, "SELECT pg_current_wal_lsn() - '0/0'"))
    return of_family(server), of_family(psutil.Process(store.run(url, postmaster))), logged, store.runs_in(url)


def _of_runs(sent: Ingested) -> Measured:
    if sent.void:
        raise SystemExit(f"void: {sent.void}")
    return {"runs a second": sent.rate, "p99 ms": sent.load.p99_ms}


def _of_spans(sent: Sent) -> Measured:
    if sent.refused:
        raise SystemExit(f"void: {sent.refused} requests were refused")
    return {"runs a second": sent.rate}


def _memory(path: Path, postgres: Postgres) -> Measured:
    with service(postgres.create("ingest"), workers=2, PYTHONPATH=str(path)) as server:
        return {
            "idle worker MB": max(server.resident_bytes()) / MEGABYTE,
            "main process MB": psutil.Process(server.process.pid).memory_info().rss / MEGABYTE,
        }


def _start(path: Path, _postgres: Postgres) -> Measured:
    with data_folder() as folder:
        start_seconds(folder, PYTHONPATH=str(path))
        return {"warm start s": start_seconds(folder, PYTHONPATH=str(path))}


LOADS: dict[int, Callable[[Build, float], Measured]] = {
    1: lambda build, seconds: _of_runs(post(build.server, build.database, seconds)),
    2: lambda build, seconds: _of_runs(post_batches(build.server, build.database, seconds)),
    19: lambda build, _seconds: _of_spans(asyncio.run(post_spans(build.server, SPANS, SPAN_REQUESTS))),
}
STILL: dict[int, Callable[[Path, Postgres], Measured]] = {9: _memory, 10: _start}

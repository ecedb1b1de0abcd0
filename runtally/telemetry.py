"""Counters of a process, for Prometheus.

With several workers a scrape reaches any one of them, so they keep their counts in files that each of them can add up:
their parent must have entered `sharing()`, because the library decides when it is imported.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from prometheus_client.values import MultiProcessValue, MutexValue

from runtally.data_dir import explained

_SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# Ingest takes milliseconds, a month of metrics of a large project seconds.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

# The library's files of a worker, and space in them for several thousand series.
_FILES = ("counter", "gauge_livesum", "histogram")
_FILE_BYTES = 1024 * 1024


def _take_room(names: Iterable[str] = _FILES) -> None:
    """Allocate the files: the library maps them into memory, and a full disk would end the process."""
    shared = os.environ.get(_SHARED_FOLDER)
    if shared and hasattr(os, "posix_fallocate"):
        for name in names:
            with (Path(shared) / f"{name}_{os.getpid()}.db").open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)


_take_room()
_registry = CollectorRegistry()

REQUESTS = Histogram(
    "runtally_http_request_seconds",
    "Time from the first byte of a request to the last of its answer; its count is the number of requests.",
    ["method", "route", "status"],
    buckets=_SECONDS,
    registry=_registry,
)
CONNECTIONS_IN_USE = Gauge(
    "runtally_database_connections_in_use",
    "Connections of the pools that a request or job holds now, over all workers.",
    multiprocess_mode="livesum",
    registry=_registry,
)
CONNECTIONS_LIMIT = Gauge(
    "runtally_database_connections_limit",
    "Connections that the pools may open, over all workers.",
    multiprocess_mode="livesum",
    registry=_registry,
)
WAITING_RUNS = Gauge(
    "runtally_runs_waiting",
    "Runs that were taken in and wait to be committed, over all workers.",
    multiprocess_mode="livesum",
    registry=_registry,
)
_RUNS = Counter("runtally_runs", "Runs received, by what became of them.", ["outcome"], registry=_registry)
_UNPRICED = Counter("runtally_runs_unpriced", "Runs received that no price is known for.", registry=_registry)
# A series that exists from the start can be alerted on when it first grows.
_OTLP_RECORDS = Counter(
    "runtally_otlp_records",
    "Spans, log records and metrics received by OTLP: read, and of these stored as runs, rejected, and reported by another record too.",
    ["signal", "outcome"],
    registry=_registry,
)
_OTLP = {
    (signal, outcome): _OTLP_RECORDS.labels(signal, outcome)
    for signal in ("traces", "logs", "metrics")
    for outcome in ("read", "run", "rejected", "twin")
}
_ARCHIVED = Counter("runtally_runs_archived", "Runs that were moved into the archive.", registry=_registry)
_ARCHIVE_FAILURES = Counter(
    "runtally_archive_failures", "Tries to archive runs that failed; the runs stay in the database.", registry=_registry
)
_PARKED_ALERTS = Counter(
    "runtally_alerts_parked",
    "Alerts that a destination did not get: given up after all tries, or held back where nobody confirmed the address.",
    registry=_registry,
)
_REPLACED_NAME, _REPLACED_HELP = "runtally_workers_replaced", "Workers that died or did not answer, and were replaced."
# Counted by the parent of several workers: see `count_replaced_worker`.
Counter(_REPLACED_NAME, _REPLACED_HELP, registry=_registry)
_STORED, _DUPLICATE, _REJECTED = map(_RUNS.labels, ("stored", "duplicate", "rejected"))


def count_runs(*, stored: int = 0, duplicate: int = 0, rejected: int = 0, unpriced: int = 0) -> None:
    """Count the results of a request's runs."""
    for counter, runs in ((_STORED, stored), (_DUPLICATE, duplicate), (_REJECTED, rejected), (_UNPRICED, unpriced)):
        if runs:
            counter.inc(runs)


def count_otlp(signal: str, *, read: int = 0, runs: int = 0, rejected: int = 0, twins: int = 0) -> None:
    """Count the results of an OTLP request's spans or log records."""
    for outcome, records in (("read", read), ("run", runs), ("rejected", rejected), ("twin", twins)):
        if records:
            _OTLP[signal, outcome].inc(records)


def count_archiving(*, runs: int = 0, failures: int = 0) -> None:
    """Count runs that were archived, and tries that failed."""
    for counter, number in ((_ARCHIVED, runs), (_ARCHIVE_FAILURES, failures)):
        if number:
            counter.inc(number)


def count_parked_alert() -> None:
    _PARKED_ALERTS.inc()


def count_replaced_worker() -> None:
    """Count a replacement where all workers do, from their parent, whose own counters are not shared."""
    try:
        _take_room(["counter"])
        replaced = _shared_value()("counter", _REPLACED_NAME, f"{_REPLACED_NAME}_total", (), (), _REPLACED_HELP)
    except OSError:
        # On a full disk, or where no more files may be open, the count is lost, not the service; the log has the line.
        return
    replaced.inc(1)  # type: ignore[no-untyped-call]  # The library's, untyped.


@cache
def _shared_value() -> Callable[..., MutexValue]:
    return MultiProcessValue()  # type: ignore[no-untyped-call,no-any-return]  # The library's, untyped.


@contextmanager
def sharing(data_dir: Path) -> Iterator[None]:
    """Let processes that are started in this block share their counts, which begin at zero.

    Raises `SettingsError` when the folder cannot be created.
    """
    all_folders = data_dir / "telemetry"
    with explained(data_dir):
        _clear_dead(all_folders)
        folder = all_folders / str(os.getpid())
        all_folders.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    os.environ[_SHARED_FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[_SHARED_FOLDER]
        shutil.rmtree(folder, ignore_errors=True)


def _clear_dead(all_folders: Path) -> None:
    """Remove folders of processes that were killed; another server on this machine may use its own."""
    for folder in all_folders.glob("*"):
        if folder.name.isdigit() and (int(folder.name) == os.getpid() or not _is_alive(int(folder.name))):
            shutil.rmtree(folder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def exposition(accept: str, now: Iterable[Metric]) -> tuple[bytes, str]:
    """Write all counts, and the current values, in the format that a scraper accepts; returns also its content type."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry()
    shared = os.environ.get(_SHARED_FOLDER)
    if shared:
        _forget_dead_workers(Path(shared))
        MultiProcessCollector(registry, shared)  # type: ignore[no-untyped-call]  # The library's, untyped.
    else:
        registry.register(_registry)
        ProcessCollector(registry=registry)
    registry.register(_Once(now))
    return encode(registry), content_type


class _Once(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _forget_dead_workers(folder: Path) -> None:
    """Forget the connections of workers that were killed; their counts remain."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        if not _is_alive(pid):
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]  # The library's, untyped.

"""Describe where figures were measured: machine, versions, date, commit."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version

import psutil

from benchmarks.processes import ROOT
from benchmarks.store import Postgres, fetch_value

PACKAGES = ("runtally", "quart", "uvicorn", "uvloop", "httptools", "asyncpg", "msgspec")
SETTINGS = ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size")


def described(postgres: Postgres) -> dict[str, object]:
    """Describe the machine, which runs both the benchmark and the service."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1024**3),
        "system": platform.platform(),
        "load_average_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "wrk": _wrk_version(),
        "postgres": fetch_value(postgres.url, "SHOW server_version"),
        "postgres_settings": {name: fetch_value(postgres.url, f"SHOW {name}") for name in SETTINGS},
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607  # Read only.
    return done.stdout.strip()


def _wrk_version() -> str:
    # It ends with 1 when asked for its version.
    done = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)  # noqa: S607  # From the PATH.
    return " ".join((done.stdout + done.stderr).split()[:2])


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123  # A file of the kernel.
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

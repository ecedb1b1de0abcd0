"""The load: wrk, one thread, keep-alive connections, requests made by a Lua script."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LUA = Path(__file__).parent / "lua"
MISSING = """\
wrk makes the load, and is not installed:
  Debian and Ubuntu   apt install wrk
  macOS               brew install wrk
  elsewhere           https://github.com/wg/wrk"""


@dataclass(frozen=True, slots=True)
class Load:
    """The counts of one round of wrk."""

    answers: int
    refused: int
    """Answers with a status of 400 or more."""
    broken: int
    """Connections that failed and requests that timed out."""
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def acknowledged(self) -> int:
        return self.answers - self.refused

    @property
    def rate(self) -> float:
        """Acknowledged requests a second."""
        return self.acknowledged / self.seconds


def check_installed() -> None:
    """Raises `SystemExit` that says how to install wrk."""
    if shutil.which("wrk") is None:
        raise SystemExit(MISSING)


def load(script: str, url: str, *, connections: int, seconds: float, **environment: object) -> Load:
    """One round; the script's parameters are given as BENCH_NAME."""
    done = subprocess.run(  # noqa: S603  # Arguments of ours.
        ["wrk", "-t1", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--timeout", "30s", "-s", LUA / script, url],  # noqa: S607  # From the PATH.
        env=os.environ | {"BENCH_LUA": str(LUA)} | {f"BENCH_{k.upper()}": str(v) for k, v in environment.items()},
        capture_output=True,
        text=True,
        check=True,
    )
    return Load(**json.loads(done.stdout.strip().splitlines()[-1]))

"""A folder for a service, and what is said at the end about what was found there."""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any


def judge(trial: Callable[[Path], Coroutine[Any, Any, list[str]]]) -> None:
    """Run what answers with the promises that were broken: with any, the data is kept, and the exit code is 1."""
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="runtally-storm-"))
    folder.chmod(0o755)
    started = time.monotonic()
    found = asyncio.run(trial(folder))
    print(f"{time.monotonic() - started:.0f} s in all")
    if found:
        print(*found, f"The data is kept in {folder}.", sep="\n")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)
    print("Every acknowledged run is there once, no refused one is, and all sums are exact.")

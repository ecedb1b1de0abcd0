"""The command line in processes that cost a tenth of one: each is forked from one that has imported everything.

How a start from nothing goes, `tests/ops` tries.
"""

import asyncio
import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from runtally import jobs
from webapp.cli import COMMANDS, main

SECONDS = 60.0

forked = multiprocessing.get_context("forkserver")
forked.set_forkserver_preload(
    [*(module.partition(":")[0] for module in COMMANDS.values()), "webapp.cli.worker", "tests.specs"]
)


# Of these no test waits for the next pass: it makes one itself, or reads what waits as well.
SELDOM = ("merge", "merge dimensions", "prices", "unpriced", "repricing", "erasing", "tracked keys", "send alerts")
SELDOM_SECONDS = 10.0


def work_seldom() -> None:
    """Let the jobs of this process look rarely whether there is work, since several servers run while all tests do."""
    jobs.PAUSES.update(dict.fromkeys(SELDOM, (SELDOM_SECONDS, SELDOM_SECONDS)))


@dataclass(frozen=True)
class Finished:
    """How a command ended, and what it said."""

    code: int | None
    out: str
    err: str


@contextmanager
def started(
    *arguments: str, environment: Mapping[str, str], stdout: Path | None = None, stderr: Path | None = None
) -> Iterator[ForkServerProcess]:
    """A command with this environment and no other; killed at the end if it still runs.

    What it prints goes to files, or to where the tests' own output goes.
    """
    process = forked.Process(target=_run, args=(arguments, dict(environment), stdout, stderr))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


def run(*arguments: str, environment: Mapping[str, str]) -> Finished:
    """A command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        with started(*arguments, environment=environment, stdout=out, stderr=err) as process:
            process.join(SECONDS)
            return Finished(process.exitcode, out.read_text(), err.read_text())


async def run_beside(*arguments: str, environment: Mapping[str, str]) -> Finished:
    """A command to its end, while the tests' own loop goes on."""
    return await asyncio.to_thread(run, *arguments, environment=environment)


def _run(arguments: tuple[str, ...], environment: dict[str, str], stdout: Path | None, stderr: Path | None) -> None:
    # What was imported before is looked through for garbage by none, and so stays the memory of all.
    gc.freeze()
    work_seldom()
    os.environ.clear()
    os.environ.update(environment)
    for path, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        if path:
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream.fileno())
    # The usual place of what is nowhere here: workers are handed it by its number.
    os.dup2(sys.stdin.fileno(), 0)
    sys.stdin = os.fdopen(0)
    # What was asked for in the process that this was forked from.
    tempfile.tempdir = None
    sys.argv = ["runtally", *arguments]
    main()

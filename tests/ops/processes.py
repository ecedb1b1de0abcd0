"""Real processes around one data folder: started, watched, killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from runtally.db.database import Database

T = TypeVar("T")

END_SECONDS = 60.0
RUNTALLY = str(Path(sys.executable).with_name("runtally"))
# Enters `database_url`, says so, and leaves when its input ends.
HOLDER = """
import sys
from runtally.embedded.server import database_url
from runtally.settings import load_settings
with database_url(load_settings()) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def until(happens: Callable[[], T | None], *, seconds: float = 80) -> T:
    """What `happens` answers as soon as it answers something."""
    deadline = time.monotonic() + seconds
    while not (answer := happens()):
        assert time.monotonic() < deadline, f"{happens} did not happen in {seconds} s"
        time.sleep(0.02)
    return answer


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    """Out of reach of every Postgres but the wheel's, and of the settings of the person who runs the tests."""
    return {"PATH": "/usr/bin:/bin", "DATA_DIR": str(data_dir), **more}


def run(command: list[str], data_dir: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command to its end, with its output."""
    env = environment(data_dir, **more)
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)  # noqa: S603  # Our own command.


@contextmanager
def started(
    command: list[str], data_dir: Path, *, user: int | None = None, cwd: str | Path | None = None, **more: str
) -> Iterator[subprocess.Popen[str]]:
    """A process with pipes to it, in a group of its own; at the end its pipes are closed and it is waited for.

    Raises `subprocess.TimeoutExpired` for one that hangs, after it and its group were killed.
    """
    process = subprocess.Popen(  # noqa: S603  # Our own programs.
        command,
        env=environment(data_dir, **more),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            # Its input may have gone with it.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]  # Pipes they are.
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


def holder(data_dir: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """Another process that uses the embedded server, and leaves at the end unless it was killed."""
    return started([sys.executable, "-c", HOLDER], data_dir)


def url_of(process: subprocess.Popen[str]) -> str:
    """Where a holder found its server; waits until it has."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def server_pid(data_dir: Path) -> int | None:
    """The pid of the embedded server, or None after it was stopped in order."""
    with suppress(FileNotFoundError, IndexError):
        return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    return None


def is_running(pid: int) -> bool:
    """Whether the process does anything still; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def answer_of(url: str, statement: str) -> object:
    """What the database answers to one statement."""

    async def ask() -> object:
        async with Database(url) as database, database.connection() as connection:
            return await connection.fetchval(statement)

    return asyncio.run(ask())


def children_of(pid: int) -> list[int]:
    children: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # A thread that has ended meanwhile left its children to another one.
        with suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, (thread / "children").read_text().split())
    return children


def workers_of(pid: int) -> list[int]:
    """The server processes of a service that has several."""
    return [child for child in children_of(pid) if b"spawn_main" in command_of(child)]


def command_of(pid: int) -> bytes:
    """What a process was started with; nothing of one that has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, 9)


def hang(pid: int) -> list[int]:
    """Stop a process and all its children, as a disk that hangs does; these are who is to `go_on`."""
    # The parent first, so that it has no other children by then.
    os.kill(pid, signal.SIGSTOP)
    children = children_of(pid)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
    return [*children, pid]


def go_on(pids: Iterable[int]) -> None:
    """Each of them, also when some have ended: one that stays behind may hold a lock that all others wait for."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

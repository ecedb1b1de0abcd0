"""A streaming replica of the tests' Postgres."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGSTOP

from sqlalchemy.engine import URL, make_url

from runtally.embedded.programs import account_for, find_programs
from tests.folders import open_folder
from tests.ops.processes import children_of
from tests.serving import START_SECONDS


@dataclass(frozen=True)
class Replica:
    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Hang it, with all its processes."""
        for pid in (self.process.pid, *children_of(self.process.pid)):
            _signal(pid, SIGSTOP)

    def go_on(self) -> None:
        for pid in (self.process.pid, *children_of(self.process.pid)):
            _signal(pid, SIGCONT)


def _signal(pid: int, number: int) -> None:
    subprocess.run(["/bin/kill", f"-{int(number)}", str(pid)], check=True)  # noqa: S603  # Processes of ours.


@contextmanager
def running_replica(database_url: str) -> Iterator[Replica]:
    """Follows the server of this database from its first moment."""
    url = make_url(database_url)
    home = Path(str(url.query["host"])).parent
    account, programs = account_for(home / "postgres"), find_programs(None)
    with open_folder("runtally-replica-") as folder:
        data, socket = folder / "data", folder / "socket"
        account.make_folder(socket)
        account.make_folder(data)
        source = f"host={url.query['host']} port=5432 user={url.username}"
        basebackup: list[str | Path] = [
            programs.folder / "pg_basebackup", "-D", data, "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync",
        ]  # fmt: skip
        copied = account.run(basebackup)
        assert copied.returncode == 0, copied.stderr
        process = subprocess.Popen(  # noqa: S603  # A program of Postgres.
            [programs["postgres"], "-D", data, "-k", socket, "-c", "listen_addresses=", "-c", "port=5432",
             "-c", "max_connections=200"],
            **account.options(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            replica = url.set(query={**url.query, "host": str(socket)})
            _wait_until_it_answers(programs["pg_isready"], replica)
            yield Replica(replica.render_as_string(hide_password=False), process)
        finally:
            process.send_signal(SIGINT)
            process.wait(START_SECONDS)


def _wait_until_it_answers(pg_isready: str, url: URL) -> None:
    deadline = time.monotonic() + START_SECONDS
    command = [pg_isready, "-q", "-h", str(url.query["host"]), "-p", "5432", "-U", "postgres"]
    while subprocess.run(command, check=False).returncode:  # noqa: S603  # As above.
        assert time.monotonic() < deadline, "the replica does not answer"
        time.sleep(0.02)

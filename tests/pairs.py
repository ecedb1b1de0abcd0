"""Two Postgres servers, of which the second follows the first synchronously, until it is promoted."""

import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGQUIT

from runtally.embedded.programs import Account, Programs, account_for, find_programs
from tests.clusters import DATA, copy_cluster
from tests.folders import open_folder
from tests.ops.processes import answer_of, go_on, hang, kill, until
from tests.serving import SEEDED, free_port

IS_FOLLOWED = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')"


@dataclass
class Pair:
    """The first server takes writes, and none is committed before the second one has it."""

    first: int
    """Its port, as of the other."""
    second: int
    account: Account
    programs: Programs
    second_data: Path
    _first_process: subprocess.Popen[bytes]
    _hanging: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.first},127.0.0.1:{self.second}/{SEEDED}"

    def url_of(self, port: int) -> str:
        """One server alone, which must take writes."""
        return f"postgresql://postgres@127.0.0.1:{port}/{SEEDED}?target_session_attrs=read-write"

    def ask(self, port: int, statement: str) -> object:
        """What one server answers."""
        # A thread of its own: a test's event loop may be running in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(answer_of, self.url_of(port), statement).result()

    def kill_first(self) -> None:
        kill(self._first_process.pid)

    def hang_first(self) -> None:
        """As a machine does that the network does not reach any more."""
        self._hanging += hang(self._first_process.pid)

    def let_go_on(self) -> None:
        go_on(self._hanging)

    def promote(self) -> None:
        """As who watches servers does when the first is away."""
        promoted = self.account.run([self.programs["pg_ctl"], "promote", "-w", "-D", self.second_data])
        assert promoted.returncode == 0, promoted.stderr


@contextmanager
def running_pair(shared: Path) -> Iterator[Pair]:
    """Both over copies of the cluster of all tests, with all tables and prices."""
    with open_folder("runtally-pair-") as folder:
        copy_cluster(shared, folder)
        first_data, second_data = folder / DATA, folder / "second"
        account, programs = account_for(first_data), find_programs(None)
        first, second = free_port(), free_port()
        trusted = "host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"
        (first_data / "pg_hba.conf").write_text(f"local all all trust\n{trusted}")
        names = ["-c", "synchronous_standby_names=*"]
        with _running(account, programs, first_data, first, names) as process:
            account.make_folder(second_data)
            source = f"host=127.0.0.1 port={first} user=postgres"
            copied = account.run(
                [
                    programs["pg_basebackup"],
                    "-D",
                    second_data,
                    "-d",
                    source,
                    "-R",
                    "-X",
                    "stream",
                    "-c",
                    "fast",
                    "--no-sync",
                ]
            )
            assert copied.returncode == 0, copied.stderr
            with _running(account, programs, second_data, second):
                pair = Pair(first, second, account, programs, second_data, process)
                until(lambda: pair.ask(first, IS_FOLLOWED))
                try:
                    yield pair
                finally:
                    pair.let_go_on()


@contextmanager
def _running(
    account: Account, programs: Programs, data: Path, port: int, more: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603  # A program of Postgres.
        [
            programs["postgres"],
            "-D",
            data,
            "-k",
            data,
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"port={port}",
            "-c",
            "max_connections=200",
            *more,
        ],
        **account.options(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ready = [programs["pg_isready"], "-q", "-h", "127.0.0.1", "-p", str(port)]
        until(lambda: not account.run(ready).returncode)
        yield process
    finally:
        # At once: a server that waits for its standby would wait for ever.
        process.send_signal(SIGQUIT)
        process.wait(60)

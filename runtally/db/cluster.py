"""The data of a Postgres server of ours: made once, and only for programs of the version that made it."""

import shutil
from pathlib import Path

from runtally.db.programs import Account, Programs, last_line
from runtally.errors import SettingsError

SUPERUSER = "postgres"
FIRST_WITH_BUILTIN_LOCALE = 17


def ensure_cluster(data: Path, account: Account, programs: Programs) -> None:
    """Make it where there is none. Raises `SettingsError`, also for one that is of another version than the programs."""
    # An empty folder may be a volume that was mounted there.
    if not data.exists() or not any(data.iterdir()):
        _make(data, account, programs)
    made_by = (data / "PG_VERSION").read_text().strip()
    if made_by != programs.major:
        raise SettingsError(
            f"The database in {data} was made by Postgres {made_by}, and the programs in {programs.folder} are Postgres "
            f"{programs.major}: set PG_BIN to the folder of Postgres {made_by}'s programs, or DATA_DIR to a new folder."
        )


def _make(data: Path, account: Account, programs: Programs) -> None:
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

"""Find Runtally's own files, and the command that starts it: both differ between a checkout and an installed wheel.

A wheel carries the folders that a checkout has at its top level below `runtally/_files` (see `hatch_build.py`). An
editable install has no such folder, so it always reads the checkout itself.
"""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""The top of the checkout; in an installed wheel, the folder of all packages."""
_PACKED = Path(__file__).resolve().parent / "_files"
IS_CHECKOUT = not _PACKED.is_dir()
ROOT = CHECKOUT if IS_CHECKOUT else _PACKED
"""The folder with `alembic`, `docs`, `static` and `templates`."""
CLIENTS = CHECKOUT / "dist" if IS_CHECKOUT else ROOT / "clients"
"""The folder with the packages of the clients, as far as they were built."""

START_COMMAND = "make run" if IS_CHECKOUT else "runtally serve --provision"
"""The command that starts the service and creates missing keys."""
REPAIR_COMMAND = "make setup" if IS_CHECKOUT else "pip install --force-reinstall runtally-*.whl"
"""The command that restores missing files of the installation."""

SYSTEM_DATA = Path("/var/lib/runtally")
COMMIT_DIGITS = 12


def commit_of(folder: Path) -> str:
    """Return the first digits of the commit that a folder is of; empty where nothing there says so.

    A package has it in a file. A checkout is asked without Git, which may be missing, and each start would wait for it.
    """
    try:
        packed = folder / "COMMIT"
        return (packed.read_text().strip() if packed.is_file() else _head_of(folder / ".git"))[:COMMIT_DIGITS]
    except OSError:
        return ""


def _head_of(git: Path) -> str:
    if git.is_file():
        # A further work tree, or a submodule, has a file here.
        git = git.parent / git.read_text().removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    shared = git / "commondir"
    common = git / shared.read_text().strip() if shared.is_file() else git
    if (common / name).is_file():
        return (common / name).read_text().strip()
    refs = (line.split() for line in (common / "packed-refs").read_text().splitlines())
    return next((commit for commit, *names in refs if names == [name]), "")


def default_data_dir() -> Path:
    """Return the data folder when DATA_DIR is not set.

    A checkout keeps its data in `.data`. An installed Runtally keeps it where the user's other programs do, since an
    environment is often deleted and created again. Postgres never runs as root, so root's data is in a folder that
    another user can reach.
    """
    is_root = os.geteuid() == 0
    if IS_CHECKOUT:
        is_private = not all(folder.stat().st_mode & 0o001 for folder in (CHECKOUT, *CHECKOUT.parents))
        return SYSTEM_DATA if is_root and is_private else CHECKOUT / ".data"
    if is_root:
        return SYSTEM_DATA
    # The XDG specification says to ignore relative paths.
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".local" / "share") / "runtally"

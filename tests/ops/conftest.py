"""Data folders, with nothing left running in them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtally.db.embedded import database_url
from runtally.settings import Settings
from tests.ops.processes import kill, server_pid


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """New and empty: what a first start finds."""
    with _open_folder() as folder:
        yield folder
        _kill_what_is_left(folder)


@pytest.fixture
def settings(made_once: Path) -> Iterator[Settings]:
    """Settings of a folder whose database is made, and does not run."""
    yield Settings(data_dir=made_once, database_url=None)
    _kill_what_is_left(made_once)


@pytest.fixture(scope="session")
def made_once() -> Iterator[Path]:
    with _open_folder() as folder:
        with database_url(Settings(data_dir=folder, database_url=None)):
            pass
        yield folder


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Open to the user who runs Postgres for root, as pytest's own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="runtally-ops-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _kill_what_is_left(folder: Path) -> None:
    pid = server_pid(folder)
    if pid:
        kill(pid)

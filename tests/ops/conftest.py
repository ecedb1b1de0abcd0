"""Data folders, with nothing left running in them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtally.settings import Settings
from tests.clusters import copy_cluster
from tests.folders import open_folder
from tests.ops.processes import kill, server_pid


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """New and empty: what a first start finds."""
    with open_folder("runtally-ops-") as folder:
        yield folder
        _kill_what_is_left(folder)


@pytest.fixture
def settings(made_once: Path) -> Iterator[Settings]:
    """Settings of a folder whose database is made, and does not run."""
    yield Settings(data_dir=made_once, database_url=None)
    _kill_what_is_left(made_once)


@pytest.fixture(scope="session")
def made_once(run_folder: Path) -> Iterator[Path]:
    with open_folder("runtally-ops-") as folder:
        copy_cluster(run_folder, folder)
        yield folder


def _kill_what_is_left(folder: Path) -> None:
    pid = server_pid(folder)
    if pid:
        kill(pid)

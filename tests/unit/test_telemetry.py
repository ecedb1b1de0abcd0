"""The folder in which workers share their counts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtally.errors import SettingsError
from runtally.telemetry import sharing

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def test_the_folder_is_private_below_the_data_folder_and_goes_at_the_end(tmp_path: Path) -> None:
    with sharing(tmp_path / "data"):
        folder = Path(os.environ[VARIABLE])
        assert {one.stat().st_mode & 0o777 for one in (folder, folder.parent)} == {0o700}
        assert folder.is_relative_to(tmp_path / "data")

    assert not folder.exists()
    assert VARIABLE not in os.environ


def test_folders_of_killed_processes_are_removed_and_those_of_others_are_kept(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for pid in (dead.pid, os.getppid(), os.getpid()):
        (tmp_path / "telemetry" / str(pid)).mkdir(parents=True)
        (tmp_path / "telemetry" / str(pid) / "counter_1.db").touch()

    with sharing(tmp_path):
        assert {path.name for path in (tmp_path / "telemetry").iterdir()} == {str(os.getppid()), str(os.getpid())}
        assert list(Path(os.environ[VARIABLE]).iterdir()) == []


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError, match="DATA_DIR"), sharing(tmp_path / "file"):
        pass

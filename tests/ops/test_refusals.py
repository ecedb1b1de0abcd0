"""When the embedded Postgres cannot run: an error that says what to do, for root and for others."""

import os
import shutil
from pathlib import Path

import pytest

from runtally.embedded.server import database_url
from runtally.errors import SettingsError
from runtally.settings import Settings

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand Postgres to another user")


def refusal_of(settings: Settings) -> str:
    with pytest.raises(SettingsError) as refused, database_url(settings):
        pass
    return refused.value.message


@pytest.fixture
def foreign_data(data_dir: Path) -> Path:
    """A data folder that says it was made by Postgres 15."""
    made = data_dir / "postgres"
    made.mkdir(mode=0o700)
    (made / "PG_VERSION").write_text("15\n")
    if os.geteuid() == 0:
        shutil.chown(made, "nobody")
    return data_dir


def test_a_data_folder_that_is_a_file_is_named(data_dir: Path) -> None:
    (data_dir / "file").touch()

    refusal = refusal_of(Settings(data_dir=data_dir / "file" / "data", database_url=None))

    assert "Not a directory" in refusal
    assert "set DATA_DIR" in refusal


def test_data_of_another_major_version_is_refused(foreign_data: Path) -> None:
    refusal = refusal_of(Settings(data_dir=foreign_data, database_url=None))

    assert "made by Postgres 15" in refusal
    assert "set PG_BIN" in refusal


def test_a_pg_bin_without_postgres_is_refused_though_the_wheel_would_run(data_dir: Path) -> None:
    refusal = refusal_of(Settings(data_dir=data_dir, pg_bin=data_dir, database_url=None))

    assert str(data_dir) in refusal
    assert "initdb" in refusal


def test_a_server_that_does_not_start_leaves_its_last_words_in_the_error(settings: Settings) -> None:
    configuration = settings.data_dir / "postgres" / "postgresql.auto.conf"
    before = configuration.read_text()
    configuration.write_text(f"{before}shared_buffers = 'nonsense'\n")
    try:
        refusal = refusal_of(settings)
    finally:
        configuration.write_text(before)

    assert "postgres.log" in refusal
    assert "configuration" in refusal


@as_root
def test_root_is_told_which_folder_keeps_postgres_out(data_dir: Path) -> None:
    closed = data_dir / "closed"
    closed.mkdir(mode=0o700)

    refusal = refusal_of(Settings(data_dir=closed / "data", database_url=None))

    assert f"cannot enter {closed}:" in refusal
    assert "/var/lib/runtally" in refusal


@as_root
def test_another_user_is_told_to_use_a_folder_of_their_own(settings: Settings) -> None:
    os.seteuid(65534)
    try:
        refusal = refusal_of(settings)
    finally:
        os.seteuid(0)

    assert "Permission denied" in refusal
    assert "set DATA_DIR to a folder of your own" in refusal


@as_root
def test_root_runs_postgres_as_somebody_else(settings: Settings) -> None:
    with database_url(settings):
        pid_file = settings.data_dir / "postgres" / "postmaster.pid"
        assert pid_file.stat().st_uid != 0
        assert Path(f"/proc/{pid_file.read_text().split()[0]}").stat().st_uid == pid_file.stat().st_uid

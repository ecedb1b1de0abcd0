"""Secrets of a first start: made once, kept closed, never in the way of what was set."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtally.data_dir import NAMES, kept_secrets, provision
from runtally.errors import SettingsError
from runtally.setting_sources import SECRETS_FILE
from runtally.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in (*NAMES, *(f"{name}_FILE" for name in NAMES)):
        monkeypatch.delenv(name, raising=False)
    return load_settings(data_dir=tmp_path / "data", port=9000)


def test_missing_secrets_are_made_and_are_in_the_settings(settings: Settings) -> None:
    made = provision(settings)

    kept = kept_secrets(settings)
    assert sorted(kept) == sorted(NAMES)
    assert [key.get_secret_value() for key in made.ingest_api_key] == [kept["INGEST_API_KEY"]]
    assert made.secret_key
    assert len(set(kept.values())) == len(NAMES)


def test_options_of_the_command_line_win(settings: Settings) -> None:
    assert provision(settings).port == 9000


def test_only_their_owner_can_read_them(settings: Settings) -> None:
    provision(settings)

    assert (settings.data_dir / SECRETS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_second_start_changes_nothing(settings: Settings) -> None:
    provision(settings)
    before = (settings.data_dir / SECRETS_FILE).read_bytes()

    provision(settings)

    assert (settings.data_dir / SECRETS_FILE).read_bytes() == before


def test_a_secret_that_a_later_version_needs_is_added(settings: Settings) -> None:
    provision(settings)
    path = settings.data_dir / SECRETS_FILE
    path.write_text(json.dumps({"INGEST_API_KEY": "kept"}))

    provision(settings)

    assert kept_secrets(settings)["INGEST_API_KEY"] == "kept"
    assert sorted(kept_secrets(settings)) == sorted(NAMES)


@pytest.mark.parametrize("value", ["mine", ""])
def test_a_variable_that_is_set_is_left_alone_even_when_empty(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("INGEST_API_KEY", value)

    made = provision(load_settings(data_dir=settings.data_dir))

    assert "INGEST_API_KEY" not in kept_secrets(settings)
    assert [key.get_secret_value() for key in made.ingest_api_key] == ([value] if value else [])


def test_a_secret_from_a_file_is_left_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("mine\n")
    monkeypatch.setenv("INGEST_API_KEY_FILE", str(tmp_path / "key"))

    provision(settings)

    assert "INGEST_API_KEY" not in kept_secrets(settings)


def test_first_starts_at_once_agree(settings: Settings) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(provision, [settings] * 8))

    assert len({each.ingest_api_key[0].get_secret_value() for each in made}) == 1


def test_a_damaged_file_is_named(settings: Settings) -> None:
    provision(settings)
    (settings.data_dir / SECRETS_FILE).write_text('{"INGEST_API_KEY": "k')

    with pytest.raises(SettingsError, match="is damaged: restore it"):
        load_settings(data_dir=settings.data_dir)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SettingsError, match="set DATA_DIR"):
        provision(load_settings(data_dir=tmp_path / "file" / "data"))

"""Keys and secrets for a first start: created once, kept in DATA_DIR, never printed here."""

import json
import os
import secrets
from pathlib import Path

from runtally.data_dir import explained, locked
from runtally.setting_sources import SECRETS_FILE
from runtally.settings import Settings, load_settings

NAMES = ("INGEST_API_KEY", "SECRET_KEY", "SERVICE_SYNC_SIGN")
SECRET_BYTES = 32


def provision(settings: Settings) -> Settings:
    """Create the secrets that are neither set nor kept yet, and return the settings with them.

    A variable that is set but empty means that its feature is off, and stays so. Raises `SettingsError` when DATA_DIR
    cannot be written.
    """
    # Two first starts at the same time must agree on one key.
    with locked(settings.data_dir, f"{SECRETS_FILE}.lock"), explained(settings.data_dir):
        kept = kept_secrets(settings)
        made = {name: secrets.token_urlsafe(SECRET_BYTES) for name in NAMES if name not in kept and not _is_set(name)}
        if made:
            _write(settings.data_dir / SECRETS_FILE, kept | made)
    return load_settings(**{name: getattr(settings, name) for name in settings.model_fields_set})


def kept_secrets(settings: Settings) -> dict[str, str]:
    """Return the secrets that were created here before, by name."""
    try:
        kept: dict[str, str] = json.loads((settings.data_dir / SECRETS_FILE).read_text())
    except FileNotFoundError:
        return {}
    return kept


def _is_set(name: str) -> bool:
    return name in os.environ or f"{name}_FILE" in os.environ


def _write(path: Path, values: dict[str, str]) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    # Readers see the old file or the whole new one.
    new.replace(path)

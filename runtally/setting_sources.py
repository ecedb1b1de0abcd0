"""Sources of settings besides environment variables: files that they name, and the data folder."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from runtally.errors import SettingsError
from runtally.files import START_COMMAND

SECRETS_FILE = "secrets.json"


class SecretFiles(PydanticBaseSettingsSource):
    """Reads NAME from the file that the variable `NAME_FILE` names, as container platforms mount secrets."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002  # Given.
        path = os.environ.get(f"{field_name.upper()}_FILE")
        return (Path(path).read_text().strip() if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in values.items() if value is not None}


class KeptSecrets(PydanticBaseSettingsSource):
    """Reads secrets that `runtally serve --provision` created in the data folder."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002  # Given.
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        default = self.settings_cls.model_fields["data_dir"].get_default(call_default_factory=True)
        path = Path(self.current_state.get("data_dir") or default) / SECRETS_FILE
        try:
            kept = json.loads(path.read_text())
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return {}
        except json.JSONDecodeError:
            raise SettingsError(
                f"{path} is damaged: restore it, or remove it, and `{START_COMMAND}` makes new keys."
            ) from None
        return {name.lower(): value for name, value in kept.items()}

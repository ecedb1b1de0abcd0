"""Puts the folders and guides that the service reads into the wheel, below `runtally/_files`.

Top-level folders of a wheel land beside every other package: `alembic` would land inside the library of that name. An
editable install gets no copies, which would go stale; it reads the checkout.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("alembic", "static", "templates")


class Files(BuildHookInterface):  # type: ignore[type-arg]  # hatchling leaves its configuration's type open.
    """The build hook that `pyproject.toml` names."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version != "editable":
            guides = [f"docs/{guide.name}" for guide in Path(self.root, "docs").glob("*.md")]
            build_data["force_include"] |= {path: f"runtally/_files/{path}" for path in (*FOLDERS, *guides)}

"""Puts the folders, guides and built clients that the service reads into the wheel, and the commit into each package.

They are below `runtally/_files`.

Top-level folders of a wheel land beside every other package: `alembic` would land inside the library of that name. An
editable install gets no copies, which would go stale; it reads the checkout.
"""

import os
import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("alembic", "static", "templates")


class Files(BuildHookInterface):  # type: ignore[type-arg]  # hatchling leaves its configuration's type open.
    """The build hook that `pyproject.toml` names."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        included = build_data["force_include"]
        self._made = TemporaryDirectory()
        commit = Path(self._made.name, "COMMIT")
        commit.write_text(os.environ.get("RUNTALLY_COMMIT") or self._commit())
        included[str(commit)] = "COMMIT" if self.target_name == "sdist" else "runtally/_files/COMMIT"
        if self.target_name == "wheel":
            guides = [f"docs/{guide.name}" for guide in Path(self.root, "docs").glob("*.md")]
            included |= {path: f"runtally/_files/{path}" for path in (*FOLDERS, *guides)}
        # The server that this becomes has no other place to take them from. Those of another version are left out.
        release = self.metadata.version
        for name in (f"runtally_client-{release}-py3-none-any.whl", f"runtally-{release}.tgz"):
            if Path(self.root, "dist", name).is_file():
                included[f"dist/{name}"] = (
                    f"dist/{name}" if self.target_name == "sdist" else f"runtally/_files/clients/{name}"
                )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatchling's interface.
        if version != "editable":
            self._made.cleanup()

    def _commit(self) -> str:
        """Return what the package will say of itself: the same module finds it there."""
        root = Path(self.root)
        found: str = runpy.run_path(str(root / "runtally" / "files.py"))["commit_of"](root)
        return found

"""Optional libraries: the extra of each, and the error that names the extra if it is missing."""

import shlex
import sys
from enum import StrEnum
from importlib.util import find_spec

from runtally.errors import MissingExtra
from runtally.files import IS_CHECKOUT
from runtally.settings import Settings


class Extra(StrEnum):
    """An extra of the package, as `pyproject.toml` names it."""

    ARCHIVE = "archive"
    MCP = "mcp"
    OIDC = "oidc"
    PARQUET = "parquet"

    @property
    def is_installed(self) -> bool:
        try:
            return all(find_spec(module) is not None for module in _MODULES[self])
        except ModuleNotFoundError:
            # Not even the package that it is in.
            return False

    @property
    def command(self) -> str:
        """The command that installs the extra where this process runs from: environments of uv have no pip."""
        if IS_CHECKOUT:
            return f".venv/bin/uv sync --inexact --extra {self}"
        installer = "pip install" if find_spec("pip") else f"uv pip install --python {shlex.quote(sys.prefix)}"
        return f"{installer} 'runtally[{self}]'"

    def require(self, purpose: str) -> None:
        """Raise `MissingExtra` unless the extra is installed; `purpose` begins the message."""
        if not self.is_installed:
            raise MissingExtra(f"{purpose} needs the extra `{self}`, which is not installed: {self.command}")


_MODULES = {
    Extra.ARCHIVE: ("arro3", "duckdb", "obstore"),
    Extra.MCP: ("mcp",),
    Extra.OIDC: ("joserfc",),
    Extra.PARQUET: ("arro3",),
}


def check(settings: Settings) -> None:
    """Raise `MissingExtra` when a setting needs an extra that is not installed."""
    if settings.oidc_issuer:
        Extra.OIDC.require("OIDC_ISSUER")
    if settings.archive_url:
        Extra.PARQUET.require("ARCHIVE_URL")
        if settings.archive_url.startswith("s3:"):
            Extra.ARCHIVE.require("ARCHIVE_URL of a bucket")

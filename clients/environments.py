"""Environments of Python with the packages of others, in old and new versions."""

import os
import subprocess
import sys
from pathlib import Path


def make_environment(folder: Path, name: str, made: Path, python: str = sys.executable) -> Path:
    """Install what is locked under this name, or with `NEWEST=1` what is newest today, and return its Python.

    From what uv keeps of earlier ones it takes a second.
    """
    suffix = "in" if os.environ.get("NEWEST") else "txt"
    uv = Path(sys.executable).with_name("uv")
    for command in (
        ["venv", "--python", python, str(made)],
        ["pip", "install", "--python", str(made), "-r", str(folder / f"{name}.{suffix}")],
    ):
        subprocess.run([str(uv), *command, "--quiet"], check=True)
    return made / "bin" / "python"

"""Other versions of Python on this machine."""

import shutil
import subprocess
from pathlib import Path


def find_python(version: str) -> str | None:
    """Find a Python of this version, on the path or among pyenv's, that runs."""
    on_path = shutil.which(f"python{version}")
    of_pyenv = sorted(str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [*([on_path] if on_path else []), *of_pyenv]
    runs = (
        each
        for each in candidates
        if subprocess.run([each, "-c", ""], capture_output=True, check=False).returncode == 0
    )
    return next(runs, None)

"""Environments with the packages of others, in old and new versions."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

REGISTRY_SECONDS = 10.0


def make_environment(folder: Path, name: str, made: Path, python: str = sys.executable) -> Path:
    """Install what is locked under this name, or with `NEWEST=1` what is newest today, and return its Python.

    From what uv keeps of earlier ones it takes a second.
    """
    suffix = "in" if os.environ.get("NEWEST") else "txt"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", python, str(made)], check=True)
    requirements = str(folder / f"{name}.{suffix}")
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or "https://pypi.org/simple/"
    install(uv, "pip", "install", "--quiet", "--python", str(made), "-r", requirements, registry=index)
    return made / "bin" / "python"


def install(*command: str, registry: str, cwd: Path | None = None) -> None:
    """Install packages. Where that fails because their registry is out of reach, the test is skipped."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    try:
        httpx.get(registry, timeout=REGISTRY_SECONDS, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        pytest.skip(f"{registry} is out of reach ({type(error).__name__}), and not all packages are here already")
    raise AssertionError((done.stdout + done.stderr)[-20_000:])


def npm(*arguments: str, cwd: Path) -> None:
    """Install packages of npm; without Node the test is skipped."""
    try:
        command = ["npm", "config", "get", "registry"]
        asked = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("there is no Node with npm on this machine")
    options = ("--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts")
    install("npm", *arguments, *options, registry=asked.stdout.strip(), cwd=cwd)

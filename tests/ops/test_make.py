"""The Makefile where the home folder is none."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def cache_folder(**environment: str) -> str:
    """Where `make setup` has uv keep what it downloads; empty: where uv itself would."""
    rule = "shown: ; @echo $(UV_CACHE_DIR)"
    done = subprocess.run(  # noqa: S603  # Our own Makefile.
        ["make", "--silent", "--eval", rule, "shown"],  # noqa: S607  # The make of the person who runs the tests.
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_home_that_cannot_be_written_is_not_needed(tmp_path: Path) -> None:
    assert cache_folder(HOME="/proc/none") == str(ROOT / ".venv" / ".cache")
    assert cache_folder(HOME="/proc/none", UV_CACHE_DIR="/somewhere") == "/somewhere"
    assert cache_folder(HOME="/proc/none", XDG_CACHE_HOME=str(tmp_path)) == ""
    assert cache_folder(HOME=str(tmp_path)) == ""

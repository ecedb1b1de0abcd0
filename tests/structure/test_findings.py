"""Each script of `findings/` can be run by its name, and has a row in the table of the README there."""

import os
import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "findings"


def test_each_script_can_be_run_and_has_one_row() -> None:
    scripts = sorted(FOLDER.glob("*.sh"))
    rows = re.findall(r"^\| `([a-z0-9-]+\.sh)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE)

    assert [script.name for script in scripts if not os.access(script, os.X_OK)] == []
    assert sorted(rows) == [script.name for script in scripts]

"""The documentation as a site: it builds without a warning, and its search finds what pages say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from runtally.files import CHECKOUT


def test_the_documentation_is_built_into_a_site_that_can_be_searched(tmp_path: Path) -> None:
    configuration = CHECKOUT / "scripts" / "site" / "mkdocs.yml"
    done = subprocess.run(  # noqa: S603  # Our own command.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(configuration), "-d", str(tmp_path)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert any("runtally backup" in one["text"] and one["location"].startswith("operations.html") for one in found)
    # A page for each document, and nothing is fetched from elsewhere.
    assert {path.stem for path in (CHECKOUT / "docs").glob("*.md")} <= {path.stem for path in tmp_path.glob("*.html")}
    for page in tmp_path.glob("*.html"):
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text()) == []

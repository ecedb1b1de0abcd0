"""Code of our documentation, as readers paste it."""

import re
from pathlib import Path

_DOCS = Path(__file__).parents[1] / "docs"


def code_in(document: str, language: str) -> list[str]:
    """Return the blocks of this language that a document says are tested."""
    found = re.findall(rf"<!-- tested .*?-->\n\n```{language}\n(.*?)```", (_DOCS / document).read_text(), re.DOTALL)
    assert found, f"{document} has no tested {language}"
    return found

"""An element that asks again by itself replaces itself, whatever the frame around it sets for what is clicked in it."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# One element's opening tag: expressions in it hold angle brackets, so it ends at a bracket outside of them.
TAG = re.compile(r"<[a-z]+\b(?:\{\{.*?\}\}|\{%.*?%\}|[^<>{]|\{(?![{%]))*>", re.DOTALL)
POLLS = [
    (path.relative_to(TEMPLATES), tag)
    for path in sorted(TEMPLATES.rglob("*.html"))
    for tag in TAG.findall(path.read_text())
    if 'hx-trigger="every ' in tag
]


def test_each_poll_is_found() -> None:
    assert len(POLLS) == sum(path.read_text().count('hx-trigger="every ') for path in TEMPLATES.rglob("*.html"))


@pytest.mark.parametrize(("path", "tag"), POLLS, ids=[str(path) for path, _ in POLLS])
def test_a_poll_replaces_itself_and_leaves_the_address(path: Path, tag: str) -> None:
    assert 'hx-target="this"' in tag
    assert 'hx-push-url="false"' in tag

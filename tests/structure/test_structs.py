"""What pages show is in structs, which mypy takes for dataclasses although `dataclasses.replace` fails on them."""

import ast
from pathlib import Path

from runtally.files import CHECKOUT

# What these change is a dataclass, of the domain mostly.
CHANGES_DATACLASSES = {
    "webapp/caching.py",
    "webapp/pages/experiments/experiment.py",
    "webapp/pages/overview/project_rows.py",
    "webapp/pages/prices/prices.py",
}


def test_structs_are_changed_by_the_replace_of_msgspec() -> None:
    modules = (CHECKOUT / "webapp").rglob("*.py")

    found = {str(path.relative_to(CHECKOUT)) for path in modules if imports_replace_of_dataclasses(path)}

    assert found == CHANGES_DATACLASSES


def imports_replace_of_dataclasses(path: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and "replace" in [imported.name for imported in node.names]
        for node in ast.walk(ast.parse(path.read_text()))
    )

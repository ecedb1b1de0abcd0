"""Python's regular expressions backtrack, so that they are ours alone: no text that comes in is ever compiled."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "runtally", "webapp")


def made_at_run_time(tree: ast.Module) -> Iterator[int]:
    """Lines of functions that hand `re` an expression that is no constant, or take something out of it unseen."""
    for function in ast.walk(tree):
        if isinstance(function, ast.ImportFrom) and function.module == "re":
            yield function.lineno
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for call in ast.walk(function):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=name), args=[expression, *_]):
                        if name not in {"escape", "purge"} and not isinstance(expression, ast.Constant):
                            yield call.lineno


def test_python_matches_with_constants_alone() -> None:
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text()) for path in sources}

    assert len(trees) > 100
    assert [f"{path.relative_to(ROOT)}:{line}" for path, tree in trees.items() for line in made_at_run_time(tree)] == []


def test_statements_that_are_built_at_run_time_are_found() -> None:
    made = "import re\nfrom re import compile\ndef one(text):\n    re.search('a', text)\n    re.search(text, 'a')\n"

    assert list(made_at_run_time(ast.parse(made))) == [2, 5]

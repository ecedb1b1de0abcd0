"""What CONTRIBUTING says of the code is true."""

import ast
import re
from collections.abc import Iterator

from runtally.files import CHECKOUT

TEXT = (CHECKOUT / "CONTRIBUTING.md").read_text()
MOST_LINES = 120
PATH = re.compile(r"`([\w.]+(?:/[\w.]+)*/?)`")
SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b.*\b(FROM|INTO|SET|AS)\b", re.DOTALL)
IMPURE = {"asyncio", "os", "secrets", "time", "runtally.db.database", "runtally.services", "runtally.ids"}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            yield str(path.relative_to(CHECKOUT)), ast.parse(path.read_text())


def texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def imports(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{name.name}" for name in node.names))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_every_path_that_it_names_exists() -> None:
    named = [path for path in PATH.findall(TEXT) if "/" in path.rstrip("/")]

    assert len(named) > 50
    assert [path for path in named if not (CHECKOUT / path).exists()] == []


def test_pages_and_routes_have_no_sql() -> None:
    assert any(SQL.match(text) for _, module in modules("runtally") for text in texts(module))
    assert [name for name, module in modules("webapp", "api") if any(map(SQL.match, texts(module)))] == []


def test_a_module_that_calls_itself_pure_is() -> None:
    pure = {
        name: module
        for name, module in modules("runtally", "webapp", "api")
        if re.search(r"\bPure\b", ast.get_docstring(module) or "")
    }

    assert len(pure) > 50
    assert {name: found for name, module in pure.items() if (found := IMPURE & {*imports(module)})} == {}
    waits = {
        name for name, module in pure.items() if any(isinstance(n, ast.AsyncFunctionDef) for n in ast.walk(module))
    }
    assert waits == set()
    clocks = {name for name, module in pure.items() if "runtally.clock.system_clock" in imports(module)}
    assert clocks == set()

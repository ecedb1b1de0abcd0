"""Tests read the clock while they run, not while they are imported: hours, and a midnight, may lie between the two."""

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("clients/**/*.py")])
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "system_clock"}
OWNERS = {"datetime", "date", "time"}


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: not the bodies of functions, but their decorators and defaults."""
    yield node
    match node:
        case ast.Lambda(args=arguments):
            children: Iterable[ast.AST] = [arguments]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            children = [*node.decorator_list, node.args]
        case _:
            children = ast.iter_child_nodes(node)
    for child in children:
        yield from at_import(child)


def reads_clock(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
            if (owner, name) == ("gzip", "compress"):
                # It writes the second into what it packs: processes of one run would not find the same tests.
                return "mtime" not in {keyword.arg for keyword in node.keywords}
            return owner in OWNERS and name in CLOCKS
        case ast.Call(func=ast.Name(id="system_clock")):
            return True
    return False


def readers(trees: list[ast.Module]) -> set[str]:
    """Functions that return what they read of the clock, such as `ago(hours=1)`."""
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        for returned in ast.walk(function)
        if isinstance(returned, ast.Return) and any(map(reads_clock, ast.walk(returned)))
    }


def clocks_at_import(tree: ast.Module, reading: AbstractSet[str]) -> list[int]:
    return [
        node.lineno
        for node in at_import(tree)
        if isinstance(node, ast.Call)
        and (reads_clock(node) or (isinstance(node.func, ast.Name) and node.func.id in reading))
    ]


def test_no_test_reads_the_clock_when_it_is_imported() -> None:
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    reading = readers(list(trees.values()))

    found = [
        f"{path.relative_to(ROOT)}:{line}" for path, tree in trees.items() for line in clocks_at_import(tree, reading)
    ]

    assert found == [], "Read the clock in the test or in a fixture, or write a moment down."


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("NOW = datetime.now(UTC)", True),
        ("NOW = system_clock() - DAY", True),
        ("@parametrize('at', [time.time()])\ndef test(at): ...", True),
        ("def test(at=date.today()): ...", True),
        ("class Made:\n    at = datetime.utcnow()", True),
        ("OLD = ago(days=1)", True),
        ("BODY = gzip.compress(b'x')", True),
        ("BODY = gzip.compress(b'x', mtime=0)", False),
        ("def test():\n    now = datetime.now(UTC)", False),
        ("clock = lambda: time.time()", False),
        ("CLOCK = system_clock", False),
    ],
)
def test_it_finds_every_way_of_reading_a_clock(source: str, *, is_found: bool) -> None:
    assert bool(clocks_at_import(ast.parse(source), {"ago"})) is is_found

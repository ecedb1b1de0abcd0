"""Change the core in one place at a time, and see whether its tests notice: `make mutants`.

Each mutant runs the unit tests of its module in a process of its own, forked from one that has imported the libraries.
Mutants are drawn with a fixed seed, as many of each module as it has; SEED=2 draws others. What no test can see is named in
`EQUIVALENT`, with the reason.
"""

import argparse
import ast
import importlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests" / "unit"
MODULES = """
runtally.pricing.cost runtally.pricing.match runtally.pricing.discount runtally.ingest.normalize runtally.ingest.usage
runtally.ingest.timestamps runtally.privacy runtally.usage.sketch runtally.usage.window runtally.limits.rate
runtally.experiments.verdict runtally.experiments.estimate runtally.alerts.anomaly runtally.access.scopes
runtally.runs.position webapp.spelling
""".split()  # noqa: SIM905  # Shorter than a list.
# A part of what a mutant is called, and why no test can tell it from the original.
EQUIVALENT: dict[str, str] = {}
SECONDS = 60
GOAL = 97
# The libraries are imported already, of which pytest warns; fixtures of a database are of no use here.
OPTIONS = """-x -q -p pytest_asyncio.plugin -p _hypothesis_pytestplugin -p no:cacheprovider --noconftest --assert=plain -W ignore
 --hypothesis-seed=0 --hypothesis-profile=mutants""".split()  # noqa: SIM905  # Shorter than a list.
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARISONS |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # codespell:ignore notin
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


Change: TypeAlias = "tuple[Any, str, Callable[[], object]]"


def tests_of(module: str) -> Path:
    """The file that is named after the module, or else the folder that is named after its own."""
    *folder, name = module.split(".")[1:]
    file = UNIT.joinpath(*folder, f"test_{name}.py")
    return file if file.exists() else UNIT.joinpath(*folder)


class Mutant(NamedTuple):
    """A module with one change: what it is called, and its code."""

    module: str
    name: str
    code: CodeType | None
    """None for the module as it is."""


def mutants_of(module: str) -> list[Mutant]:
    path = ROOT / f"{module.replace('.', '/')}.py"
    source = path.read_text()
    count = sum(1 for _ in _changes(ast.parse(source)))
    found = []
    for number in range(count):
        tree = ast.parse(source)
        node, before, apply = next(change for place, change in enumerate(_changes(tree)) if place == number)
        apply()
        after = ast.unparse(node)
        if before != after:
            name = f"{path.relative_to(ROOT)}:{node.lineno} {before} => {after}"
            found.append(Mutant(module, name, compile(ast.fix_missing_locations(tree), str(path), "exec")))
    return found


def _changes(tree: ast.AST) -> Iterator[Change]:
    """Each node that can be changed, its text, and what changes it in place; annotations and decorators are left alone."""
    hints = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    decorators = [one for node in ast.walk(tree) for one in getattr(node, "decorator_list", ())]
    left_alone = {id(part) for one in (*hints, *decorators) if one for part in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) not in left_alone:
            for change in _ways(node):
                yield node, ast.unparse(node), change


def _ways(node: Any) -> Iterator[Callable[[], object]]:  # noqa: ANN401, C901  # One case for each kind of node.
    def put(name: str, value: object) -> Callable[[], None]:
        return lambda: setattr(node, name, value)

    match node:
        case ast.Compare(ops=[first, *others]) if type(first) in COMPARISONS:
            yield put("ops", [COMPARISONS[type(first)](), *others])
        case ast.BinOp(op=op, left=left) if type(op) in OPERATORS and not isinstance(
            left, ast.Constant | ast.JoinedStr
        ):
            yield put("op", OPERATORS[type(op)]())
        case ast.BoolOp(op=op, values=values):
            is_and = isinstance(op, ast.And)
            yield put("op", ast.Or() if is_and else ast.And())
            for place in range(len(values)):
                yield put("values", [*values[:place], ast.Constant(is_and), *values[place + 1 :]])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield put("operand", ast.UnaryOp(ast.Not(), operand))
        case ast.Constant(value=bool() as value):
            yield put("value", not value)
        case ast.Constant(value=int() as value):
            yield put("value", value + 1)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield put("value", ast.Constant(None))
        case ast.If() | ast.IfExp():
            yield put("test", ast.Constant(value=False))
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield put("func", ast.Name(CALLS[name], ast.Load()))
        case ast.Call(func=ast.Attribute(attr="strip" | "lower" | "upper", value=value)):
            yield lambda: node.__dict__.update(func=ast.Name("str", ast.Load()), args=[value], keywords=[])


class _Mutated(MetaPathFinder, Loader):
    """Imports a module from other code than its file's."""

    def __init__(self, mutant: Mutant, code: CodeType) -> None:
        self._mutant, self._code = mutant, code

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        path = ROOT / f"{name.replace('.', '/')}.py"
        return ModuleSpec(name, self, origin=str(path)) if name == self._mutant.module else None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(ROOT / f"{self._mutant.module.replace('.', '/')}.py")
        exec(self._code, module.__dict__)  # noqa: S102  # Our own code, with a change.


def survivors(jobs: Sequence[Mutant]) -> list[Mutant]:
    """Those with which the tests pass. What does not end in time is noticed."""
    left, running, found = list(jobs), dict[int, Mutant](), []
    while left or running:
        while left and len(running) < (os.cpu_count() or 1):
            child = os.fork()
            if not child:
                _run_tests(left[-1])
            running[child] = left.pop()
        child, status = os.wait()
        job = running.pop(child)
        if status == 0:
            found.append(job)
    return found


def _run_tests(mutant: Mutant) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    signal.alarm(SECONDS)
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", database=None, deadline=None, phases=phases)
    if mutant.code:
        sys.meta_path.insert(0, _Mutated(mutant, mutant.code))
    try:
        code = pytest.main([*OPTIONS, str(tests_of(mutant.module))])
    except BaseException:  # noqa: BLE001  # A mutant may break the import itself.
        code = 1
    os._exit(int(code))


def import_libraries() -> None:
    """Everything that tests import, but for our own modules, which each process imports with its mutant."""
    ours = ("runtally", "api", "webapp", "tests")
    imports = ", ".join([*MODULES, "hypothesis.strategies", "pytest_asyncio.plugin", "_hypothesis_pytestplugin"])
    program = f"import sys, {imports}; print(*(m for m in sys.modules if m.partition('.')[0] not in {ours!r}))"
    listed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in set(listed.stdout.split()) - {"__main__"}:
        importlib.import_module(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500, help="how many to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", help="this one alone, with all of its mutants")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(ROOT))
    import_libraries()
    modules = [options.module] if options.module else MODULES
    known = [mutant for module in modules for mutant in mutants_of(module)]
    chosen = known if options.module else random.Random(options.seed).sample(known, min(options.mutants, len(known)))  # noqa: S311
    chosen = [one for one in chosen if not any(part in one.name for part in EQUIVALENT)]
    as_they_are = [Mutant(module, "", None) for module in modules]
    if broken := {one.module for one in as_they_are} - {one.module for one in survivors(as_they_are)}:
        sys.exit(f"The tests fail without any change: {', '.join(sorted(broken))}.")
    left = survivors(chosen)
    for one in sorted(left, key=lambda one: one.name):
        print(f"survived: {one.name}")
    score = 100 * (1 - len(left) / len(chosen))
    print(f"{len(chosen) - len(left)} of {len(chosen)} mutants noticed: {score:.1f} %; the goal is {GOAL} %.")
    return int(score < GOAL)


if __name__ == "__main__":
    sys.exit(main())

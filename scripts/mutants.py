"""Change the core in one place at a time, and see whether its tests notice: `make mutants`.

Each mutant runs the unit tests of its module in a process of its own, forked from one that has imported everything; it
imports anew what imports the mutant. The score is the share of mutants with which a test fails. What no test can see is
named in `EQUIVALENT` with the reason, counted, and left out of the score. Annotations, decorators and keywords of classes
are never changed.
"""

import argparse
import ast
import gc
import importlib
import os
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import grimp
import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests" / "unit"
STATEMENTS = ROOT / "tests" / "structure" / "test_sql.py"
WITH_STATEMENTS = {"runtally.usage.sketch"}
MODULES = """
runtally.pricing.cost runtally.pricing.match runtally.pricing.providers runtally.pricing.expressions
runtally.pricing.draft runtally.pricing.book runtally.money runtally.budgets.use
runtally.ingest.decode runtally.ingest.normalize runtally.ingest.usage runtally.ingest.timestamps runtally.privacy
runtally.limits.rate runtally.limits.limiter runtally.limits.downloads runtally.usage.sketch runtally.usage.summary
runtally.usage.window runtally.usage.memo runtally.usage.drivers runtally.usage.groups.ranks runtally.access.scopes
runtally.experiments.verdict runtally.experiments.estimate runtally.alerts.rules runtally.runs.values webapp.server.hosts
""".split()  # noqa: SIM905  # Shorter than a list.
# What a mutant is called, as a regular expression, and why no test can tell it from the original.
EQUIVALENT = {
    r"True => False \| (walks = |for name, measure in zip)": "places and measures are as many, and so are walks and parts",
    r"\d => \d \| step, least = |\| (step \*= 2|if len\((ranks|walks)\) == 1|return group\[0\] if len)|if False: \| if least > most_of_rest": "more is walked than needs to be, or kept in more memory",
    r"0 => 1 \| (most_of_rest|least) = ": "more is walked, or nothing at all",
    r" or 0 => .* or False ": "False is the number 0",
    r"repr=False, compare=False": "a field that follows from others compares as they do, and nobody reads it",
    r"True and \(?not counts\[below\]": "below the first place is the last one, and some place has runs",
    r" tokens_(in|out) > 0 => tokens_(in|out) >= 0 ": "none at any price are nothing",
    r"=> (False or self\.is_plain|not self\.content_keys (and|or False)|if False: \| if not self\.content_keys)": "what is plain is kept as it is, only later",
    r"key if False else _bare": "what is ASCII is legible as it is, only later",
    r"_REMEMBERED_\w+ => |\d => \d+ \| _REMEMBERED|_remembered if False": "what is remembered changes no answer",
    r"number >= (_FIRST_MILLISECONDS) => number > \1 |1[01] => 1[12] \| _FIRST_MILLISECONDS = ": "no run is as old as the numbers between",
    r"(None if False else _PART|True and \(not _ISO)": "the usual form has nothing of the others; it is only read faster",
    r"3 => 4 \| _PARTS": "no name of content has four words",
    r"value if False else self\._kept": "a plain value is kept as it is, only later",
    r"(60 => 61|80 => 81) \| _CONTEXT = ": "no product has as many digits",
    r"(multiply|in_proportion)\((.+?), (.+?)((?:, .+)?)\) => .*\1\(\3, \2\4\)": "a product is the same in either order",
    r"True => False \| for number in self\._filter\.Match": "what may match is tried, whether or not it was tried before",
    r"if not self\._texts: =>": "RE2 says that its filter needs an expression; the release of the lock file does without",
    r"if not wait_ns: =>": "a key that is not used up is forgotten when it is looked at",
    r"if False: \| if isinstance\(one, str": "what holds no other values is counted as it is, only later",
    r"_added\(self\.(\w+), other\.\1\)": "a sum is the same in either order",
    r"options\.never_capture": "no group is read, whether or not it is captured",
    r"0 => 1 \| (before|after) = book\.price_for": "a price for long contexts begins above some tokens, not above none",
    r"len\(sketches\) == 1: => if False: ": "of one sketch both ways find the same, one of them faster",
}
# The most that each may take of the processor's time, so that a busy machine fails none.
SECONDS = 20
# What takes less of it than this between so many looks waits for ever: on a busy machine everything gets more than that.
LEAST_SECONDS, LOOKS, LOOK_SECONDS = 0.004, 8, 1
GOAL = 97
# The libraries are imported already, of which pytest warns; fixtures of a database are of no use here.
OPTIONS = """-x -q -p pytest_asyncio.plugin -p _hypothesis_pytestplugin -p no:cacheprovider --noconftest --assert=plain -W ignore
 --hypothesis-seed=0 --hypothesis-profile=mutants""".split()  # noqa: SIM905  # Shorter than a list.
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARISONS |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # codespell:ignore notin
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


Change: TypeAlias = "tuple[Any, Callable[[], object]]"


def tests_of(module: str) -> list[Path]:
    """The file that is named after the module, and one that reads its statements."""
    *folder, name = module.split(".")[1:]
    files = [UNIT.joinpath(*folder, f"test_{name}.py")]
    return [*files, STATEMENTS] if module in WITH_STATEMENTS else files


class Mutant(NamedTuple):
    """A module with one change: what it is called, and its code."""

    module: str
    name: str
    """Empty for the module as it is."""
    code: CodeType


def path_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def as_it_is(module: str) -> Mutant:
    """Return the module without a change, imported as its mutants are: what fails then is no change's fault."""
    path = path_of(module)
    return Mutant(module, "", compile(path.read_text(), str(path), "exec"))


def mutants_of(module: str) -> list[Mutant]:
    path = path_of(module)
    source = path.read_text()
    lines, tree, found = source.splitlines(), ast.parse(source), []
    for node, apply in _changes(tree):
        kind, fields, before = node.__class__, node.__dict__.copy(), _text(node)
        apply()
        if before != (after := _text(node)):
            name = f"{path.relative_to(ROOT)}:{node.lineno} {before} => {after} | {lines[node.lineno - 1].strip()}"
            found.append(Mutant(module, name, compile(ast.fix_missing_locations(tree), str(path), "exec")))
        node.__class__ = kind
        node.__dict__.clear()
        node.__dict__.update(fields)
    return found


def _text(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def _changes(tree: ast.AST) -> Iterator[Change]:
    """Each node that can be changed, and what changes it in place; what only declares is left alone."""
    hints = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    decorators = [one for node in ast.walk(tree) for one in getattr(node, "decorator_list", ())]
    keywords = [one for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.keywords]
    left_alone = {id(part) for one in (*hints, *decorators, *keywords) if one for part in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) not in left_alone:
            for change in _ways(node):
                yield node, change


def _ways(node: Any) -> Iterator[Callable[[], object]]:  # noqa: ANN401, C901, PLR0912  # One case for each kind of node.
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
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Await()):
            yield lambda: setattr(node, "__class__", ast.Pass)
        case ast.Set(elts=elements):
            for place in range(len(elements)):
                yield put("elts", elements[:place] + elements[place + 1 :])
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield put("func", ast.Name(CALLS[name], ast.Load()))
        case ast.Call(func=ast.Attribute(attr="strip" | "lower" | "upper", value=value)):
            yield lambda: node.__dict__.update(func=ast.Name("str", ast.Load()), args=[value], keywords=[])
        case ast.Call(args=[first, second, *others]) if ast.Starred not in (type(first), type(second)):
            yield put("args", [second, first, *others])


def reason_to_leave_out(mutant: Mutant) -> str | None:
    return next((reason for pattern, reason in EQUIVALENT.items() if re.search(pattern, mutant.name)), None)


class _Mutated(MetaPathFinder, Loader):
    """Imports a module from other code than its file's."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin=str(path_of(name))) if name == self._mutant.module else None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(path_of(self._mutant.module))
        exec(self._mutant.code, module.__dict__)  # noqa: S102  # Our own code, with a change.


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
            if job.name:
                print(f"survived: {job.name}", flush=True)
    return found


def _run_tests(mutant: Mutant) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    # A timer of the processor's time would make that time coarse for tests that measure it.
    signal.signal(signal.SIGALRM, _End())
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", database=None, deadline=None, phases=phases)
    sys.meta_path.insert(0, _Mutated(mutant))
    try:
        _forget(mutant.module)
        code = pytest.main([*OPTIONS, *map(str, tests_of(mutant.module))], plugins=[_ExamplesFirst()])
    except BaseException:  # noqa: BLE001  # A mutant may break the import itself.
        code = 1
    os._exit(int(code))


class _End:
    """Ends the process where it computes for too long, and where it computes nothing any more."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=LOOKS)

    def __call__(self, *_: object) -> None:
        # A process that is stopped meanwhile is looked at once when it goes on.
        self._seen.append(time.process_time())
        waits = len(self._seen) == LOOKS and self._seen[-1] - self._seen[0] < LEAST_SECONDS
        if waits or self._seen[-1] > SECONDS:
            os._exit(1)


class _ExamplesFirst:
    """Tests of examples notice most mutants in no time; those that make values up come after them."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def import_everything() -> None:
    """Import what the tests of the core import, themselves included, which takes longer than most of them."""
    files = {file.relative_to(ROOT).with_suffix("") for module in MODULES for file in tests_of(module)}
    tests = sorted(".".join(file.parts) for file in files)
    for name in (*MODULES, *tests, "pytest_asyncio.plugin", "_hypothesis_pytestplugin"):
        importlib.import_module(name)
    _graph()
    # Each child would look through all of it, and so copy it; none lives long enough to need that.
    gc.freeze()
    gc.disable()


def _forget(module: str) -> None:
    """Make the module, and all that import it, be imported anew."""
    importing = _graph().find_downstream_modules(module)
    for name in [*sys.modules]:
        if name == module or name in importing or name.partition(".")[0] == "tests":
            package, _, last = name.rpartition(".")
            vars(sys.modules.get(package, sys)).pop(last, None)
            del sys.modules[name]


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("runtally", "api", "webapp", cache_dir=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", nargs="*", default=MODULES, help="these alone")
    modules = parser.parse_args().module
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(ROOT))
    import_everything()
    as_they_are = list(map(as_it_is, modules))
    if broken := {one.module for one in as_they_are} - {one.module for one in survivors(as_they_are)}:
        sys.exit(f"The tests fail without any change: {', '.join(sorted(broken))}.")
    known = [mutant for module in modules for mutant in mutants_of(module)]
    reasons = Counter(reason for one in known if (reason := reason_to_leave_out(one)))
    tried = [one for one in known if not reason_to_leave_out(one)]
    made, left = Counter(one.module for one in tried), Counter(one.module for one in survivors(tried))
    for module in modules:
        print(f"{module}: {made[module] - left[module]} of {made[module]}")
    for reason, number in reasons.items():
        print(f"{number} left out: {reason}")
    score = 100 * (1 - left.total() / made.total())
    print(
        f"{made.total() - left.total()} of {made.total()} mutants noticed: {score:.1f} %; the goal is {GOAL} %.",
        end=" ",
    )
    print(f"Left out: {reasons.total()} that no test can tell from the original.")
    return int(score < GOAL)


if __name__ == "__main__":
    sys.exit(main())

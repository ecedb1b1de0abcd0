"""Documentation that the code knows better is written by it, and must be what it would write now."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest

from runtally.errors import RuntallyError
from runtally.files import CHECKOUT
from runtally.settings import Settings

docs = runpy.run_path(str(CHECKOUT / "scripts" / "docs.py"))


@pytest.mark.parametrize("path", docs["generated"](), ids=lambda path: path.name)
def test_the_generated_part_is_up_to_date(path: Path) -> None:
    assert path.read_text() == docs["generated"]()[path], "run `make docs`"


def test_every_setting_has_a_sentence() -> None:
    assert [name for name, field in Settings.model_fields.items() if not (field.description or "").endswith(".")] == []


def errors_of(kind: type[RuntallyError]) -> list[type[RuntallyError]]:
    return [kind, *(error for sub in kind.__subclasses__() for error in errors_of(sub))]


def test_every_error_has_a_code_of_its_own_and_says_what_to_do() -> None:
    kinds = [kind for kind in errors_of(RuntallyError) if "code" in vars(kind)]

    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(kind.message.endswith(".") for kind in kinds)


def test_no_docstring_needs_the_one_above_to_be_understood() -> None:
    leaning = re.compile(r'^\s*"""(The same|Of|As|And|By|But|Or|For) ', re.MULTILINE)
    folders = (CHECKOUT / name for name in ("runtally", "api", "webapp"))
    modules = [path for folder in folders for path in folder.rglob("*.py")]

    assert len(modules) > 100
    assert [str(path) for path in modules if leaning.search(path.read_text())] == []


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "## [Unreleased]" in (CHECKOUT / "CHANGELOG.md").read_text()


def dependencies() -> set[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    names = {re.match(r"[\w-]+", each) for group in groups for each in group if isinstance(each, str)}
    return {name[0] for name in names if name} - {"runtally"}


@pytest.mark.parametrize("name", sorted(dependencies()))
def test_every_dependency_has_a_line_with_its_reason(name: str) -> None:
    decisions = (CHECKOUT / "docs" / "decisions.md").read_text()

    assert len(re.findall(rf"^- {re.escape(name)}(?![\w-]).{{20,}}", decisions, re.MULTILINE)) == 1


def test_contributing_shows_the_layers_that_are_enforced() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    enforced = [layer.replace("runtally.", "").split(" | ") for layer in layers if "runtally" in layer]

    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    picture = text.partition("`make check` enforces them:\n\n")[2].partition("\n\n")[0]
    # What a layer is for stands apart by three spaces or more; a bar at the start goes on with the line above.
    names = re.sub(r"\s*\n\s*\|", " |", "\n".join(re.split(r" {3,}", line[4:])[0] for line in picture.splitlines()))
    assert [line.split(" | ") for line in names.splitlines()] == enforced


def test_contributing_names_every_folder() -> None:
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    tracked = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)  # noqa: S607
    folders = {path.partition("/")[0] for path in tracked.stdout.splitlines() if "/" in path and path[0] != "."}

    assert {folder for folder in folders if f"    {folder}/" not in text} == set()


def test_the_readme_leads_to_every_document() -> None:
    readme = (CHECKOUT / "README.md").read_text()

    assert [path.name for path in (CHECKOUT / "docs").glob("*.md") if f"(docs/{path.name})" not in readme] == []


@pytest.mark.parametrize("name", ["reliability.md", "security.md"])
def test_every_test_that_is_called_evidence_exists(name: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (CHECKOUT / "docs" / name).read_text())

    assert named
    sources = {path: (CHECKOUT / "tests" / path).read_text() for path, _ in named}
    assert [test for path, test in named if f"def {test}(" not in sources[path]] == []


def test_the_migrations_folder_does_not_shadow_the_library() -> None:
    assert not (CHECKOUT / "alembic" / "__init__.py").exists()

"""Documentation that the code knows better is written by it, and must be what it would write now."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from runtally.errors import RuntallyError
from runtally.settings import CHECKOUT, Settings

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
def test_every_dependency_has_a_reason(name: str) -> None:
    decisions = (CHECKOUT / "docs" / "decisions.md").read_text()

    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", decisions)


def test_the_readme_leads_to_every_document() -> None:
    readme = (CHECKOUT / "README.md").read_text()

    assert [path.name for path in (CHECKOUT / "docs").glob("*.md") if f"(docs/{path.name})" not in readme] == []


def test_the_migrations_folder_does_not_shadow_the_library() -> None:
    assert not (CHECKOUT / "alembic" / "__init__.py").exists()

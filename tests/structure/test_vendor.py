"""What is vendored is what the README of its folder says, each with its licence."""

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "static" / "vendor"
README = (VENDOR / "README.md").read_text()
FILES = sorted(path for path in VENDOR.rglob("*") if path.is_file() and path.suffix != ".txt" and path.parent != VENDOR)
SHIPPED = [path for path in FILES if path.name != "LICENSE"]
LOCK = json.loads((ROOT / "scripts" / "vendor" / "package-lock.json").read_text())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_file_has_the_size_and_sum_of_the_readme(path: Path) -> None:
    content = path.read_bytes()

    row = next(line for line in README.splitlines() if line.startswith(f"| `{path.relative_to(VENDOR)}` "))

    assert f"| {len(content):,} | `{hashlib.sha256(content).hexdigest()}` |" in row


def test_the_readme_lists_no_file_that_is_not_there() -> None:
    listed = re.findall(r"^\| `([^`]+)` \|", README, re.MULTILINE)

    assert sorted(listed) == sorted(str(path.relative_to(VENDOR)) for path in SHIPPED)


@pytest.mark.parametrize("path", [path for path in SHIPPED if path.suffix == ".js"], ids=lambda path: path.name)
def test_a_script_has_a_compressed_file_next_to_it(path: Path) -> None:
    assert 0 < path.with_name(f"{path.name}.br").stat().st_size < path.stat().st_size / 2


@pytest.mark.parametrize("folder", sorted({path.parent for path in SHIPPED}), ids=lambda folder: folder.name)
def test_a_package_has_its_licence_next_to_it(folder: Path) -> None:
    licences = [folder / "LICENSE", folder / "LICENSES.txt"]

    assert any(licence.is_file() and licence.stat().st_size for licence in licences)


def test_versions_are_those_of_the_lock_file() -> None:
    table = dict(re.findall(r"^\| (\S+) \| ([\d.]+) \| \S+ \|$", README, re.MULTILINE))

    assert table == LOCK["packages"][""]["dependencies"]
    assert table == {name: LOCK["packages"][f"node_modules/{name}"]["version"] for name in table}


def test_the_lock_names_no_host_and_checks_every_package() -> None:
    packages = [entry for name, entry in LOCK["packages"].items() if name]

    assert not [entry for entry in packages if "resolved" in entry]
    assert not [entry for entry in packages if not entry["integrity"].startswith("sha512-")]

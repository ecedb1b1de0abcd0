"""Which commit a folder is of, as Git says itself."""

import subprocess
from pathlib import Path

import pytest

from runtally.files import COMMIT_DIGITS, commit_of


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", *settings, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603  # Ours.
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "One")
    return folder


def test_a_checkout_is_of_the_commit_that_git_says(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")[:COMMIT_DIGITS]
    of_branch = commit_of(repository)
    git(repository, "pack-refs", "--all")
    of_packed_branch = commit_of(repository)
    git(repository, "worktree", "add", "--quiet", "-b", "other/name", str(tmp_path / "further"))
    of_work_tree = commit_of(tmp_path / "further")
    git(repository, "checkout", "--quiet", "--detach")
    of_no_branch = commit_of(repository)

    assert [of_branch, of_packed_branch, of_work_tree, of_no_branch] == [head] * 4
    git(tmp_path / "further", "commit", "--quiet", "--allow-empty", "--message", "Two")
    assert commit_of(tmp_path / "further") == git(tmp_path / "further", "rev-parse", "HEAD")[:COMMIT_DIGITS] != head


def test_a_package_is_of_the_commit_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "COMMIT").write_text("0123456789abcdef0123\n")

    assert commit_of(tmp_path) == "0123456789ab"


def test_a_folder_that_says_nothing_is_of_none(repository: Path, tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/gone\n")
    assert commit_of(repository) == ""

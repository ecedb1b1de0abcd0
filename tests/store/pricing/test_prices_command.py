"""`runtally prices` on a real registry."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webapp.cli import main


@pytest.fixture
def environment(empty_database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path)}


def run(environment: dict[str, str], *arguments: str) -> Result:
    result = CliRunner(env=environment).invoke(main, ["prices", *arguments])
    assert result.exit_code == 0, result.output
    return result


def test_sync_reports_its_changes(environment: dict[str, str]) -> None:
    first = run(environment, "sync").output
    second = run(environment, "sync").output

    assert " prices added, 0 changed, 0 unchanged, 0 left to an admin" in first
    assert second.startswith("0 prices added, 0 changed, ")
    assert "0 runs without a cost were priced." in second


def test_list_shows_a_table(environment: dict[str, str]) -> None:
    run(environment, "sync")

    heading, base, tier, hint = run(
        environment, "list", "--provider", "Gemini", "--model", "2.5-PRO", "--limit", "2"
    ).output.splitlines()

    assert heading.replace("ABOVE TOKENS", "ABOVE").split() == (
        ["PROVIDER", "MODEL", "ABOVE", "INPUT", "OUTPUT", "CACHED", "FROM", "UNTIL", "SOURCE"]
    )
    assert base.split() == ["google", "gemini-2.5-pro", "1.25", "10", "0.125", "-", "-", "catalogue"]
    assert tier.split() == ["google", "gemini-2.5-pro", "200,000", "2.5", "15", "0.25", "-", "-", "catalogue"]
    assert base.index("1.25") + 4 == tier.rindex("2.5") + 3 == heading.index("INPUT") + 5
    assert hint.startswith("There are more than 2")


def test_an_empty_list_comes_with_advice(environment: dict[str, str]) -> None:
    assert "runtally prices sync" in run(environment, "list").output


def test_a_file_that_is_no_text_is_refused_once(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_bytes(b"\xff\xfe provider")

    refused = CliRunner(env=environment).invoke(main, ["prices", "import", str(file)])

    assert refused.exit_code == 1
    assert refused.output.startswith("Error: The first line must name columns")
    assert refused.output.count("\n") == 1


def test_a_file_is_tried_and_then_applied(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("provider,model,input_per_million\nacme,large,3\n")

    tried = run(environment, "import", str(file)).output
    before = run(environment, "export").output
    applied = run(environment, "import", str(file), "--apply").output
    again = CliRunner(env=environment).invoke(main, ["prices", "import", str(file)])

    assert "line 2: add acme large" in tried
    assert "1 price would change" in tried
    assert "acme" not in before
    assert "1 price changed." in applied
    assert ",acme,large," in run(environment, "export").output
    assert again.exit_code == 1
    assert "is in force at all times" in again.output

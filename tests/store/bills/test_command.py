"""`runtally bills`: what admins type."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.serving import INGEST_KEY
from webapp.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(empty_database_url: str, tmp_path: Path) -> Run:
    environment = {
        "DATABASE_URL": empty_database_url,
        "DATA_DIR": str(tmp_path),
        "INGEST_API_KEY": INGEST_KEY,
        "SECRET_KEY": "secret-key-of-the-tests",
    }
    runner = CliRunner(env=environment)
    return lambda *arguments: runner.invoke(main, ["bills", *arguments])


def test_a_bill_is_added_listed_shown_and_removed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "activity.csv"
    path.write_text(
        "date,model,requests,prompt_tokens,completion_tokens,usage,byok_usage_inference\n"
        "2026-03-02,made/model,12,1000,100,1.25,0.5\n2026-03-03,made/model,3,10,10,0.25,0\n"
    )

    added = run("add", str(path), "--tolerance", "5")
    again = run("add", str(path))
    [listed] = json.loads(run("list", "--json").output)
    shown = json.loads(run("show", listed["id"], "--json").output)
    text = run("show", listed["id"], "--csv").output

    assert added.exit_code == 0, added.output
    assert "$2 billed, $0 computed: $2 of difference." in added.output
    assert again.exit_code == 1
    assert "There is a bill of openrouter from 2026-03-02 to 2026-03-03 already" in again.output
    assert (listed["since"], listed["until"], listed["billedUSD"], listed["toleranceUSD"]) == (
        "2026-03-02",
        "2026-03-04",
        2,
        5,
    )
    assert shown["total"]["differenceUSD"] == 2
    assert [one["name"] for one in shown["days"]] == ["2026-03-02", "2026-03-03"]
    assert text.splitlines()[1].startswith("openrouter,made/model,2,0,2,")
    assert run("remove", listed["id"]).output == "Bill removed.\n"
    assert "No bills" in run("list").output


def test_an_amount_has_a_vendor_and_days(run: Run) -> None:
    assert run("add", "--provider", "openai", "--month", "2026-02", "--amount", "$1,204.50").exit_code == 0
    [listed] = json.loads(run("list", "--json").output)
    assert (listed["since"], listed["until"], listed["billedUSD"]) == ("2026-02-01", "2026-03-01", 1204.5)

    for arguments, message in (
        (("--amount", "3"), "Say whose bill it is"),
        ((), "Give files of a vendor, or --amount"),
        (("--provider", "x", "--month", "March", "--amount", "3"), "Write a month as 2026-11"),
        (("--provider", "x", "--month", "2026-01", "--amount", "much"), "Give US dollars of 0 or more"),
        (("--provider", "x", "--month", "2099-01", "--amount", "3"), "is not over"),
    ):
        refused = run("add", *arguments)
        assert refused.exit_code != 0
        assert message in refused.output

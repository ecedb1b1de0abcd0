"""Each count of the vendors' newest SDKs is read, or declared as not billed; `NEWEST=1` takes what is newest today."""

import json
import subprocess
from pathlib import Path

import pytest

from clients.environments import make_environment
from runtally.files import CHECKOUT

HERE = Path(__file__).parent
TABLE = json.loads((CHECKOUT / "clients/python/src/runtally_client/usage.json").read_text())
READ = {path.partition(".[")[0] for _unit, path, *_ in TABLE["rows"]}
NOT_BILLED = tuple(TABLE["notBilled"])


def unknown(fields: list[str]) -> list[str]:
    """Return the fields that the table neither reads nor declares as not billed; what is in a declared object is declared."""
    whole = {field: field.partition("[]")[0] for field in fields}
    declared = {field for field, path in whole.items() if path in READ or f"{path}.".startswith(_OBJECTS)}
    return sorted(set(fields) - declared)


_OBJECTS = tuple(f"{path}." for path in NOT_BILLED)


def test_a_new_count_is_unknown() -> None:
    assert unknown(["prompt_tokens", "dream_tokens", "iterations[].input_tokens", "prompt_tokens_details.dreams"]) == [
        "dream_tokens",
        "prompt_tokens_details.dreams",
    ]


def test_no_count_of_a_vendors_sdk_is_unknown(tmp_path: Path) -> None:
    python = make_environment(HERE / "environments", "vendors", tmp_path / "environment")
    done = subprocess.run([python, str(HERE / "usage_fields.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])

    assert min(map(len, found.values())) > 0
    assert {name: missing for name, fields in found.items() if (missing := unknown(fields))} == {}


@pytest.mark.parametrize("path", NOT_BILLED)
def test_nothing_is_both_read_and_declared_as_not_billed(path: str) -> None:
    assert path not in READ

"""What commands print for people."""

import msgspec
import pytest
from click.testing import CliRunner

from runtally.doctor import Finding, State
from runtally.errors import InvalidBill
from webapp.cli import doctor, main
from webapp.cli.output import echo, echo_json, echo_table, record

NAME = "a\x1b]0;b\x07\x9b31m\u202ec\u2028d\U000e0001é"
SHOWN = r"a\u001b]0;b\u0007\u009b31m\u202ec\u2028d\udb40\udc01é"


def test_no_name_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"{NAME} is hidden\nand shown again")
    echo_table(("project",), [(NAME,)], numbers=())
    echo_json(record(project_id=NAME))

    printed = capsys.readouterr().out
    lines, _, as_json = printed.partition("{")
    assert lines.splitlines() == [f"{SHOWN} is hidden", "and shown again", "project", SHOWN]
    assert msgspec.json.decode("{" + as_json) == {"projectId": NAME}
    assert all(each.isprintable() for each in printed.replace("\n", ""))


def test_neither_checks_nor_errors_steer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[Finding]:
        raise InvalidBill(f"{NAME} is unknown.")

    monkeypatch.setattr(doctor, "_findings", lambda: [Finding("otlp", State.WARN, NAME)])
    shown = CliRunner().invoke(main, ["doctor"])
    monkeypatch.setattr(doctor, "_findings", refuse)
    refused = CliRunner().invoke(main, ["doctor"])

    assert shown.output.splitlines() == [f"warn  otlp            {SHOWN}"]
    assert refused.output.splitlines() == [f"Error: {SHOWN} is unknown."]
